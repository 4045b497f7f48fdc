package policy_test

import (
	"fmt"
	"hash/fnv"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// enforcedOf returns for each of n keys whether a policy is enforced.
func enforcedOf(t testing.TB, name string, percent, n int) (keys []bool, share float64) {
	t.Helper()
	s := mustSet(t, mustNew(t, policy.Config{Name: name, Percent: percent, Key: []policy.KeyPart{part(policy.Header, "X-A")}}))
	var q policy.Matches
	count := 0
	header := map[string][]string{"X-A": {""}}
	var r policy.Attributes = request{header: header}
	for i := range n {
		header["X-A"][0] = fmt.Sprint("user-", i)
		enforced := s.Match(&q, r)
		keys = append(keys, enforced == 1)
		count += enforced
		if len(q.Charges) != 1 || len(q.Requests) != 1 || q.Charges[0].Always {
			t.Fatalf("%d asks, want one that is not always asked", len(q.Charges))
		}
	}
	return keys, 100 * float64(count) / float64(n)
}

// TestPercent checks that about the percentage of 100,000 keys is enforced. Each key stays
// enforced when the percentage grows, and other policies select other keys.
func TestPercent(t *testing.T) {
	const n = 100_000
	var before []bool
	for _, percent := range []int{1, 10, 35, 50, 99, 100, 0} {
		keys, share := enforcedOf(t, "p", percent, n)
		want := float64(percent)
		if percent == 0 {
			want = 100
		}
		if math.Abs(share-want) > 2 || want == 100 && share != 100 {
			t.Errorf("%d percent enforce %.2f%% of the keys, want within 2", percent, share)
		}
		for i := range before {
			if before[i] && !keys[i] {
				t.Fatalf("key %d is no longer enforced at %d percent", i, percent)
			}
		}
		before = keys
	}
	a, _ := enforcedOf(t, "p", 50, 10_000)
	b, _ := enforcedOf(t, "q", 50, 10_000)
	both := 0
	for i := range a {
		if a[i] && b[i] {
			both++
		}
	}
	if both < 2200 || both > 2800 {
		t.Errorf("two policies of 50 percent share %d of 10000 keys, want about 2500", both)
	}
}

// TestPercentOfShortKeys checks that neighboring addresses are spread.
func TestPercentOfShortKeys(t *testing.T) {
	s := mustSet(t, mustNew(t, policy.Config{Percent: 50}))
	var q policy.Matches
	enforced := 0
	for i := range 256 {
		enforced += s.Match(&q, request{ip: fmt.Sprint("10.0.0.", i)})
	}
	if enforced < 96 || enforced > 160 {
		t.Errorf("%d of 256 addresses in a row are enforced at 50 percent, want about half", enforced)
	}
}

// TestPercentIsStable checks that the hash is the one of Config.Percent, so that an upgrade
// denies no key that was in shadow mode.
func TestPercentIsStable(t *testing.T) {
	keys, _ := enforcedOf(t, "p", 50, 1000)
	text := ""
	for i, enforced := range keys {
		h := fnv.New64a()
		value := fmt.Sprint("user-", i)
		fmt.Fprintf(h, "p|%d:%s", len(value), value)
		mixed := h.Sum64()
		mixed ^= mixed >> 33
		mixed *= 0xff51afd7ed558ccd
		mixed ^= mixed >> 33
		mixed *= 0xc4ceb9fe1a85ec53
		mixed ^= mixed >> 33
		if enforced != (mixed%100 < 50) {
			t.Fatalf("key %d is enforced: %v, want %v", i, enforced, !enforced)
		}
		if i < 32 {
			text += map[bool]string{true: "1", false: "0"}[enforced]
		}
	}
	if want := "00001011100010000010000100000011"; text != want {
		t.Errorf("enforced of 32 keys = %s, want %s", text, want)
	}
}

func TestCandidate(t *testing.T) {
	tighter := []weir.Limit{weir.MustLimit("5/s"), ten[0]}
	c := policy.Config{Name: "x", Candidate: tighter, Limits: []weir.Limit{ten[0], weir.MustLimit("100/m")}, CostOf: cost{says("2")}, Percent: 50,
		Overrides: []policy.Override{{Key: []string{"10.0.0.0/24"}, Limits: []weir.Limit{weir.MustLimit("1/h")}}}}
	x := mustNew(t, c)
	after := mustNew(t, policy.Config{Name: "after"})
	shadow := mustNew(t, policy.Config{Name: "shadow", Mode: policy.Shadow, Candidate: []weir.Limit{weir.MustLimit("7/s")}})
	s := mustSet(t, x, shadow, after)
	for i := range 20 {
		var q policy.Matches
		enforced := s.Match(&q, request{ip: fmt.Sprint("10.0.0.", i)})
		names, key := "", ""
		for j, a := range q.Charges {
			names += fmt.Sprintf("%s %v,", a.Policy.Name(), a.Always)
			if (a.From < enforced) != (j < enforced) { // of one limit each
				t.Fatalf("ask %d is of requests %d to %d, and %d are enforced", j, a.From, a.To, enforced)
			}
			if a.Policy.Name() != "x~candidate" {
				continue
			}
			key = a.Key
			if a.Cost != 2 || a.To-a.From != 2 || !q.Requests[a.From].Limit.Equal(tighter[0]) || q.Requests[a.From].N != 2 || q.Requests[a.From].Key != a.Key {
				t.Errorf("ask of the candidate = %+v with %+v, want its limits at the cost of its policy", a, q.Requests[a.From:a.To])
			}
		}
		want := "x false,after false,x~candidate true,shadow false,shadow~candidate true,"
		if enforced == 1 {
			want = "after false,x false,x~candidate true,shadow false,shadow~candidate true,"
		}
		if names != want || key != fmt.Sprintf("x~candidate|%d:10.0.0.%d", len(fmt.Sprint("10.0.0.", i)), i) {
			t.Errorf("asks = %s of candidate's key %s, want %s", names, key, want)
		}
	}
	if got := s.Policies(); len(got) != 3 || s.Policy("x~candidate") == nil || s.Policy("after~candidate") != nil {
		t.Errorf("%d policies, candidate %v, want 3 and the candidate by its name", len(got), s.Policy("x~candidate"))
	}
	cc := s.Policy("x~candidate").Config()
	if cc.Mode != policy.Shadow || cc.Percent != 100 || len(cc.Limits) != 2 || cc.Candidate != nil || cc.Overrides != nil {
		t.Errorf("Config of the candidate = %+v, want a shadow policy with its limits alone", cc)
	}
	if x.Name() != "x" || len(x.Config().Overrides) != 1 {
		t.Error("the candidate changed its policy")
	}
	off := mustSet(t, mustNew(t, policy.Config{Mode: policy.Off, Candidate: tighter}))
	var q policy.Matches
	if n := off.Match(&q, request{}); n != 0 || len(q.Charges) != 0 {
		t.Errorf("a policy that is off asks %d and its candidate with it, want none", len(q.Charges))
	}
	long := policy.Config{Name: fmt.Sprintf("%064d", 0), Key: []policy.KeyPart{part(policy.Header, "X-A")}, Candidate: tighter}
	r := request{header: map[string][]string{"X-A": {fmt.Sprintf("%0500d", 0)}}}
	mustSet(t, mustNew(t, long)).Match(&q, r)
	if a, b := q.Charges[0].Key, q.Charges[1].Key; len(a) > 128 || len(b) > 128 || a == b {
		t.Errorf("long keys %s and %s, want two of at most 128 bytes", a, b)
	}
}

// TestMatchesKeepsItsBuffers checks that reuse of a Matches does not change earlier
// results.
func TestMatchesKeepsItsBuffers(t *testing.T) {
	s := mustSet(t, mustNew(t, policy.Config{Percent: 50, Candidate: []weir.Limit{weir.MustLimit("5/s")}, Match: policy.Match{Where: condition{says("true")}}, CostOf: cost{says("1")}}))
	var q policy.Matches
	var a policy.Attributes = request{ip: "203.0.113.7", path: "/a"}
	s.Match(&q, a)
	keys := [2]string{q.Charges[0].Key, q.Charges[1].Key}
	s.Match(&q, request{ip: "198.51.100.8", path: "/b"})
	if keys != [2]string{"p|11:203.0.113.7", "p~candidate|11:203.0.113.7"} {
		t.Errorf("keys became %q", keys)
	}
	if got := testing.AllocsPerRun(1000, func() { s.Match(&q, a) }); got > 5 {
		t.Errorf("Match allocates %v times, want at most 5: two keys, and what the test's expressions do", got)
	}
}

// TestConfigRoundTrips checks that a policy of the Config of a policy is equal to it.
func TestConfigRoundTrips(t *testing.T) {
	for _, c := range []policy.Config{
		{},
		{Mode: policy.Shadow, Count: policy.CountFailures, Settle: policy.Settle{JSON: "usage.total_tokens"}, OnStoreError: policy.Local},
		{Mode: policy.Off, Count: policy.CountAll, Settle: policy.Settle{Header: "X-Cost"}, Carry: weir.CarryAdditive},
		{Percent: 10, Candidate: []weir.Limit{weir.MustLimit("1/s")}, Count: policy.CountSuccesses, Failures: [][2]int{{429, 429}, {500, 599}}},
		{OnDenied: policy.OnDenied{Redirect: "/wait?a=b", Wait: time.Minute, Headers: map[string]string{"X-A": "b"}}},
		{OnDenied: policy.OnDenied{Redirect: "https://example.com:8443/", Status: 307}},
		{OnDenied: policy.OnDenied{Body: "wait"}, CostOf: cost{says("1")}, Match: policy.Match{Where: condition{says("true")}}, Key: byClaim("sub@X-A")},
		{Key: []policy.KeyPart{{Source: policy.CEL, Of: says("a")}}, Overrides: []policy.Override{{Key: []string{"a*"}, Limits: ten}}},
	} {
		c.Name = "p"
		once := mustNew(t, c).Config()
		twice := mustNew(t, once).Config()
		for i := range reflect.TypeOf(once).NumField() {
			a, b := reflect.ValueOf(once).Field(i), reflect.ValueOf(twice).Field(i)
			if fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", b) {
				t.Errorf("%s = %+v, want %+v", reflect.TypeOf(once).Field(i).Name, b, a)
			}
		}
	}
	c := mustNew(t, policy.Config{Count: policy.CountFailures}).Config()
	if len(c.Failures) != 1 || c.Failures[0] != ([2]int{400, 599}) || c.Percent != 100 {
		t.Errorf("Config = %+v, want failures of 400 to 599 and 100 percent", c)
	}
	if c := mustNew(t, policy.Config{OnDenied: policy.OnDenied{Redirect: "/x"}}).Config(); c.Count != policy.CountAdmitted || c.Failures != nil ||
		c.OnDenied.Status != 303 || c.OnDenied.Body != "" || c.OnDenied.ContentType != "" {
		t.Errorf("Config = %+v, want admitted, no failures, 303 and no body", c)
	}
}

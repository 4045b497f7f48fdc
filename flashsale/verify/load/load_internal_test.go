package load

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
	"time"
	"unicode/utf8"
)

// TestProcessorTimeOfChildren checks that CPU time of child processes counts, as for nginx.
func TestProcessorTimeOfChildren(t *testing.T) {
	c := exec.Command("sh", "-c", `(while :; do :; done) & read line; kill $!`)
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer in.Close()
	tick, patience := time.NewTicker(10*time.Millisecond), time.NewTimer(30*time.Second)
	defer tick.Stop()
	defer patience.Stop()
	for cpuOf(c.Process.Pid) < 100*time.Millisecond { // the shell itself only waits
		select {
		case <-tick.C:
		case <-patience.C:
			t.Fatal("no CPU time of a shell whose child works")
		}
	}
}

// TestQuantiles compares with the exact quantiles: at most 1.6 % higher, never lower.
func TestQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 10, 99, 100, 101, 20_000} {
		var h histogram
		var all []time.Duration
		for range n {
			d := time.Duration(rng.ExpFloat64() * float64(rng.IntN(1_000_000_000)))
			all = append(all, d)
			h.add(d)
		}
		slices.Sort(all)
		q := h.quantiles()
		if q.Count != int64(n) {
			t.Fatalf("%d values, counted %d", n, q.Count)
		}
		for _, c := range []struct {
			percent int
			got     time.Duration
		}{{50, q.P50}, {90, q.P90}, {99, q.P99}, {100, q.Max}} {
			want := all[(n*c.percent+99)/100-1]
			if c.got < want || float64(c.got) > float64(want)*1.017+2000 {
				t.Errorf("p%d of %d values = %s, want %s or slightly more", c.percent, n, c.got, want)
			}
		}
	}
}

func TestBuckets(t *testing.T) {
	last := -1
	for n := int64(0); n < 1<<20; n++ {
		b := bucketOf(n)
		if b != last && b != last+1 || ceilOf(b) < n || b > 0 && ceilOf(b-1) >= n {
			t.Fatalf("bucket of %d = %d after %d, up to %d", n, b, last, ceilOf(b))
		}
		last = b
	}
	var h histogram
	for _, d := range []time.Duration{-time.Second, 0, 1 << 62} {
		h.add(d)
	}
	if q := h.quantiles(); q.Count != 3 {
		t.Errorf("%+v", q)
	}
}

func TestEventHeap(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var l eventHeap
	var want []event
	for i := range 1000 {
		e := event{rng.Int64N(50), int32(i)}
		l.push(e)
		want = append(want, e)
	}
	slices.SortStableFunc(want, func(a, b event) int { return int(a.due - b.due) })
	for i, w := range want {
		if got := l.pop(); got != w {
			t.Fatalf("event %d = %v, want %v", i, got, w)
		}
	}
}

func TestAddresses(t *testing.T) {
	for n, want := range map[int]string{0: "10.0.0.0", 255: "10.0.0.255", 256: "10.0.1.0", 1<<24 - 1: "10.255.255.255"} {
		if got := string(address(nil, n)); got != want {
			t.Errorf("address %d = %s, want %s", n, got, want)
		}
	}
}

// FuzzResponse compares with encoding/json for valid bodies, and wants no panic for others.
func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		`{"state":"waiting","ahead":3,"poll_after_ms":1200,"place":"abc","view":{"phase":"open","poll_after_ms":7,"x":[{"phase":"no"}]},"held":[{"receipt":"r"}]}`,
		`{"reason":"sold_out","layer":"L0","retry_after_ms":12}`, ` { "token" : "a\"b" , "until":"x" } `, `{}`, `[]`, `{"a":`, `{"a":"\`, `{"state":null,"poll_after_ms":1e3}`,
		`{"poll_after_ms":-5}`, `{"poll_after_ms":99999999999999999999}`, `{"a":{"state":"no"},"b":[[{"reason":"no"}]]}`, "{\"a\":tru\xff}", `{"view":3,"state":{}}`, `{,}`, `{"a" "b"}`, `}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var a response
		a.read(body)
		var want map[string]json.RawMessage
		if !utf8.Valid(body) || json.Unmarshal(body, &want) != nil || want == nil || bytes.ContainsAny(body, `\`) {
			return
		}
		if !a.complete {
			t.Fatalf("%q is an object", body)
		}
		got := map[string][]byte{"state": a.state, "place": a.place, "token": a.token, "receipt": a.receipt, "reason": a.reason, "layer": a.layer}
		for name, v := range got {
			var s string
			if json.Unmarshal(want[name], &s) == nil && bytes.Count(body, []byte(`"`+name+`"`)) == 1 && string(v) != s {
				t.Errorf("%s of %q = %q, want %q", name, body, v, s)
			}
		}
	})
}

// TestAllocations checks that a request allocates nothing.
func TestAllocations(t *testing.T) {
	body := []byte(`{"state":"waiting","ahead":3,"poll_after_ms":1200,"place":"abc","view":{"phase":"open","poll_after_ms":7}}`)
	w := &worker{clients: &clients{Config: Config{Sale: "s1", Addresses: 10}}, wire: wire{host: "127.0.0.1:1", out: make([]byte, 0, 4096)}}
	u := &user{cookie: []byte("abc"), place: []byte("def")}
	var a response
	var h histogram
	n := testing.AllocsPerRun(100, func() {
		w.out = w.render(w.out[:0], turn, u, nil, nil)
		a.read(body)
		h.add(time.Millisecond)
	})
	if n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

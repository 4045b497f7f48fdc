package suggest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/accesslog"
	"github.com/floodweir/weir/cmd/weir/internal/suggest"
	"github.com/floodweir/weir/cmd/weir/internal/virtual"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/weirfile"
)

func analyze(entries []accesslog.Entry) *suggest.Analysis {
	a := suggest.New()
	for i := range entries {
		a.Add(&entries[i], entries[i].At)
	}
	return a
}

// policies returns the suggestion as a policy file, and what weirfile reads in it.
func policies(t *testing.T, s *suggest.Suggestion) (*weirfile.File, string) {
	t.Helper()
	var b bytes.Buffer
	if err := s.WritePolicies(&b); err != nil {
		t.Fatal(err)
	}
	f, err := weirfile.Parse("suggested.yaml", b.Bytes())
	if err != nil {
		t.Fatalf("the suggestion is invalid: %v\n%s", err, b.String())
	}
	return f, b.String()
}

// attributes implements policy.Attributes by an entry.
type attributes struct{ *accesslog.Entry }

func (a attributes) Method() string         { return a.Entry.Method }
func (a attributes) Host() string           { return a.Entry.Host }
func (a attributes) Path() string           { return a.Entry.Path }
func (a attributes) Header(string) []string { return nil }
func (a attributes) Query(string) []string  { return nil }
func (a attributes) Cookie(string) []string { return nil }
func (a attributes) ClientIP() netip.Addr   { return a.Client }

// denied returns the clients of which a file denies more than 1 % of the requests.
func denied(t *testing.T, f *weirfile.File, entries []accesslog.Entry) map[netip.Addr]bool {
	t.Helper()
	clock := virtual.NewClock(time.UnixMicro(entries[0].At))
	store, err := virtual.NewStore(clock)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	e, err := enforce.New(store, f.Policies, enforce.Config{})
	if err != nil {
		t.Fatal(err)
	}
	all, some := map[netip.Addr]int{}, map[netip.Addr]int{}
	var p enforce.Admission
	for i := range entries {
		clock.Advance(entries[i].At)
		all[entries[i].Client]++
		if !e.Enter(context.Background(), attributes{&entries[i]}, &p).Passes() {
			some[entries[i].Client]++
		}
	}
	flagged := map[netip.Addr]bool{}
	for a, n := range some {
		if 100*n > all[a] {
			flagged[a] = true
		}
	}
	return flagged
}

// TestAbusers measures the suggestion on two generators of logs with planted abusers among
// heavy clients: the clients that it denies against the planted ones. There are 4 seeds of each
// generator, or 20 if WEIR_LONG is set.
func TestAbusers(t *testing.T) {
	seeds := uint64(4)
	if os.Getenv("WEIR_LONG") != "" {
		seeds = 20
	}
	for name, generate := range map[string]func(uint64) *traffic{"shop": shop, "api": api} {
		t.Run(name, func(t *testing.T) {
			var precision, recall []float64
			for seed := range seeds {
				made := generate(seed)
				s, err := analyze(made.entries).Suggest(suggest.Config{})
				if err != nil {
					t.Fatal(err)
				}
				f, text := policies(t, s)
				flagged, right := denied(t, f, made.entries), 0
				for a := range flagged {
					if made.abusers[a] {
						right++
					} else {
						t.Logf("seed %d denies %s, which is no abuser", seed, a)
					}
				}
				for a := range made.abusers {
					if !flagged[a] {
						t.Logf("seed %d does not deny the abuser %s", seed, a)
					}
				}
				precision = append(precision, float64(right)/float64(max(1, len(flagged))))
				recall = append(recall, float64(right)/float64(len(made.abusers)))
				if seed == 0 && testing.Verbose() {
					t.Logf("%d requests\n%s", len(made.entries), text)
				}
			}
			t.Logf("precision: mean %.3f, minimum %.3f; recall: mean %.3f, minimum %.3f", mean(precision), slices.Min(precision), mean(recall), slices.Min(recall))
			if mean(precision) < .95 || mean(recall) < .95 {
				t.Errorf("precision %.3f, recall %.3f, want a mean of 0.95 or more", mean(precision), mean(recall))
			}
		})
	}
}

func mean(all []float64) (sum float64) {
	for _, v := range all {
		sum += v / float64(len(all))
	}
	return sum
}

// TestEnvelope checks that the suggested override admits everything of its client, and that
// the limit of a percentile admits everything of that share of the clients.
func TestEnvelope(t *testing.T) {
	made := shop(7)
	s, err := analyze(made.entries).Suggest(suggest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, level := range s.Policies[len(s.Policies)-1].Levels {
		f, err := weirfile.Parse("p", fmt.Appendf(nil, "policies:\n  - { name: p, key: [client.ip], limits: [%s] }\n", strings.Join(level.Limits, ", ")))
		if err != nil {
			t.Fatal(err)
		}
		above := map[netip.Addr]bool{}
		for a := range denied(t, f, made.entries) {
			above[a] = true
		}
		if len(above) > level.Clients || level.Name == "max" && level.Clients > 0 {
			t.Errorf("%s: %s denies %d clients, and the table has %d", level.Name, strings.Join(level.Limits, ", "), len(above), level.Clients)
		}
	}
}

// TestGood checks that a client that is listed as good is never an abuser.
func TestGood(t *testing.T) {
	made := shop(1)
	s, err := analyze(made.entries).Suggest(suggest.Config{Good: func(a netip.Addr) bool { return made.abusers[a] }})
	if err != nil {
		t.Fatal(err)
	}
	f, text := policies(t, s)
	if flagged := denied(t, f, made.entries); len(flagged) > 0 || strings.Contains(text, "# abuser") {
		t.Errorf("%d clients denied, want none\n%s", len(flagged), text)
	}
}

// TestCollapse checks the routes of paths.
func TestCollapse(t *testing.T) {
	for path, want := range map[string]string{
		"/": "/", "/login": "/login", "/users/42/posts": "/users/*", "/a/b/c/d/e": "/a/b/c/d/*",
		"/o/3f2504e0-4f89-11d3-9a0c-0305e82c3301": "/o/*", "/o/deadbeef01": "/o/*", "/feed": "/feed", "/x/%2e%2e": "/x/*", "/x/login\"": "/x/*", "//a//": "/a", "/../a": "/*", "/{id}": "/*",
	} {
		if got := suggest.Collapse(path); got != want {
			t.Errorf("Collapse(%q) = %q, want %q", path, got, want)
		}
		if _, err := weirfile.Parse("p", fmt.Appendf(nil, "policies:\n  - { name: p, match: { paths: [%q] }, key: [client.ip], limits: [1/s] }\n", want)); err != nil {
			t.Errorf("%s in a policy file: %v", want, err)
		}
	}
}

// TestTooLittle checks the error of a log with few clients.
func TestTooLittle(t *testing.T) {
	if _, err := analyze(shop(1).entries[:50]).Suggest(suggest.Config{}); !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), "not enough traffic") {
		t.Errorf("Suggest for 50 requests = %v, want an error", err)
	}
}

// TestAddresses checks that prefixes of IPv6 and requests without an address are handled.
func TestAddresses(t *testing.T) {
	made := api(3)
	for i := range made.entries {
		a := made.entries[i].Client.As4()
		made.entries[i].Client = netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, a[1], a[2], a[3], 0, byte(i)})
	}
	a := analyze(made.entries)
	a.Add(&accesslog.Entry{Path: "/"}, made.entries[len(made.entries)-1].At)
	s, err := a.Suggest(suggest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, text := policies(t, s); !strings.Contains(text, "::/64") || s.Dropped != 1 {
		t.Errorf("%d dropped, want 1, and overrides of prefixes:\n%s", s.Dropped, text)
	}
}

// days generates three days of clients that make some requests in each of six hours a day. One
// of them makes many more, at a low rate.
func days() (*traffic, netip.Addr) {
	t := &traffic{abusers: map[netip.Addr]bool{}}
	for c := range 40 {
		r := rand.New(rand.NewPCG(1, uint64(c)))
		s := &source{r, t, netip.AddrFrom4([4]byte{10, 0, 0, byte(c)}), 0}
		pause := 600.0
		if c == 7 {
			pause = 15
		}
		for s.at = pause * r.Float64(); s.at < 3*24*3600; s.jitter(pause, .3) {
			if int(s.at)%(24*3600) > 6*3600 {
				continue
			}
			s.t.entries = append(s.t.entries, accesslog.Entry{At: int64((begin + s.at) * 1e6), Client: s.client, Method: "GET", Path: "/a", Status: 200, Cost: 1, Agent: fmt.Sprint(int(s.at) % (1 + 29*(c/7%2)))})
		}
	}
	return t.sort(), netip.AddrFrom4([4]byte{10, 0, 0, 7})
}

// TestQuotas checks that a client within the rate, but far above the hours and days of others,
// is above the suggested quotas. Its override admits everything, and has the hint at its many
// user agents.
func TestQuotas(t *testing.T) {
	made, heavy := days()
	s, err := analyze(made.entries).Suggest(suggest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p := s.Policies[0]
	if len(p.Limits) != 3 || !strings.HasSuffix(p.Limits[1], "/h") || !strings.HasSuffix(p.Limits[2], "/24h") {
		t.Errorf("limits = %q, want a rate and quotas of an hour and a day", p.Limits)
	}
	if len(p.Overrides) != 1 || p.Overrides[0].Client.Addr() != heavy || p.Overrides[0].Agents < 8 {
		t.Errorf("overrides = %+v, want one of %s with many user agents", p.Overrides, heavy)
	}
	f, text := policies(t, s)
	if got := denied(t, f, made.entries); len(got) > 0 || !strings.Contains(text, "user agents: perhaps a shared address") {
		t.Errorf("denied %v, want none, and a hint at the shared address:\n%s", got, text)
	}
	without := strings.Split(text, "    overrides:")[0]
	if f, err = weirfile.Parse("p", []byte(without)); err != nil {
		t.Fatal(err)
	}
	if got := denied(t, f, made.entries); len(got) != 1 || !got[heavy] {
		t.Errorf("without overrides denied %v, want %s:\n%s", got, heavy, without)
	}
}

// TestRetries checks that a client is an abuser if it is denied ten times inside Retry-After,
// but not if it waits, or was denied on other routes.
func TestRetries(t *testing.T) {
	for _, test := range []struct {
		name  string
		pause int64 // between requests, in s
		paths int
		want  bool
	}{{"hammers", 5, 1, true}, {"waits", 60, 1, false}, {"other routes", 5, 12, false}} {
		made := shop(1)
		client := netip.MustParseAddr("192.0.2.1")
		for i := range int64(600) { // above the limit, and most succeed
			made.entries = append(made.entries, accesslog.Entry{At: (begin+100)*1e6 + i*50_000, Client: client, Path: "/big", Method: "GET", Status: 200, Cost: 1, Duration: -1})
		}
		for i := range int64(24) {
			made.entries = append(made.entries, accesslog.Entry{At: (begin + 1000 + i*test.pause) * 1e6, Client: client, Path: fmt.Sprint("/r/", string(rune('g'+i%int64(test.paths)))), Method: "GET", Status: 429, RetryAfter: 60e6, Cost: 1, Duration: -1})
		}
		s, err := analyze(made.sort().entries).Suggest(suggest.Config{})
		if err != nil {
			t.Fatal(err)
		}
		site := s.Policies[len(s.Policies)-1]
		i := slices.IndexFunc(site.Abusers, func(a suggest.Abuser) bool { return a.Client.Addr() == client })
		if got := i >= 0 && slices.Contains(site.Abusers[i].Reasons, suggest.Retries); got != test.want {
			t.Errorf("%s: retries %t, want %t", test.name, got, test.want)
		}
	}
}

// TestBounds checks that limits and overrides are within the bounds, those of a policy before
// the others.
func TestBounds(t *testing.T) {
	analysis := analyze(shop(2).entries)
	for _, test := range []struct{ least, most string }{{"50/s burst 5000", "100/s burst 9000"}, {"1/m burst 1", "5/m burst 3"}} {
		c := suggest.Config{
			Min: suggest.Bound{"per-client": limit(t, test.least), "": limit(t, "1/h")},
			Max: suggest.Bound{"": limit(t, test.most), "write-login": limit(t, "2/m burst 2")},
		}
		s, err := analysis.Suggest(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range s.Policies {
			least, most := limit(t, test.least), limit(t, test.most)
			if p.Name == "write-login" {
				least, most = limit(t, "1/h"), limit(t, "2/m burst 2")
			}
			texts := []string{p.Limits[0]}
			for _, o := range p.Overrides {
				texts = append(texts, o.Limits[0])
			}
			for _, text := range texts {
				l := limit(t, text)
				if perSecond(l) < perSecond(least) || perSecond(l) > perSecond(most) || l.Capacity() < least.Capacity() || l.Capacity() > most.Capacity() {
					t.Errorf("%s: %s, want between %s and %s", p.Name, l, least, most)
				}
			}
		}
	}
	if _, err := analysis.Suggest(suggest.Config{Min: suggest.Bound{"": limit(t, "2/s")}, Max: suggest.Bound{"": limit(t, "1/s")}}); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("a minimum above the maximum gives %v, want an error", err)
	}
}

func limit(t *testing.T, text string) weir.Limit {
	t.Helper()
	l, err := weir.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func perSecond(l weir.Limit) float64 { return float64(l.Count()) / l.Period().Seconds() }

// TestRecent checks that traffic before the window is forgotten, and that limits stay while the
// use does.
func TestRecent(t *testing.T) {
	r := suggest.Recent{Window: time.Hour}
	add := func(from, to, each int) suggest.Limits {
		t.Helper()
		for m := from; m < to; m++ {
			for i := range 30 * each {
				at := int64(begin+60*m+i/30) * 1e6
				r.Add(&accesslog.Entry{Client: netip.AddrFrom4([4]byte{10, 0, 0, byte(i % 30)}), Path: "/", Cost: 1}, at)
			}
		}
		s, err := r.Suggest(suggest.Config{})
		if err != nil {
			t.Fatal(err)
		}
		limits, err := s.Limits()
		if err != nil {
			t.Fatal(err)
		}
		return limits
	}
	quiet := add(0, 90, 3)
	busy := add(90, 100, 20)
	for _, test := range []struct {
		name          string
		before, after suggest.Limits
		share         float64
		want          int
	}{
		{"nothing before", nil, quiet, .2, 1},
		{"busy minutes", quiet, busy, .2, 1},
		{"busy minutes, and a large share", quiet, busy, 20, 0},
		{"quiet again", quiet, add(100, 170, 3), .2, 0},
		{"quiet for long", quiet, add(1000, 1020, 3), .2, 0},
	} {
		if got := suggest.Changes(test.before, test.after, test.share); len(got) != test.want {
			t.Errorf("%s: %v, want %d changes", test.name, got, test.want)
		}
	}
}

package suggest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
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
// heavy clients, with 20 seeds each: the clients that it denies against the planted ones.
func TestAbusers(t *testing.T) {
	for name, generate := range map[string]func(uint64) *traffic{"shop": shop, "api": api} {
		t.Run(name, func(t *testing.T) {
			var precision, recall []float64
			for seed := range uint64(20) {
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
		f, err := weirfile.Parse("p", fmt.Appendf(nil, "policies:\n  - { name: p, key: [client.ip], limits: [%s] }\n", level.Limit))
		if err != nil {
			t.Fatal(err)
		}
		above := map[netip.Addr]bool{}
		for a := range denied(t, f, made.entries) {
			above[a] = true
		}
		if len(above) > level.Clients || level.Name == "max" && level.Clients > 0 {
			t.Errorf("%s: %s denies %d clients, and the table has %d", level.Name, level.Limit, len(above), level.Clients)
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

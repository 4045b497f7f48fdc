package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// TestBadGuards checks that an error names the resource and the invalid field.
func TestBadGuards(t *testing.T) {
	at := guard.Resource{Name: "f", Function: "shop.Get", File: "shop.go", Line: 7}
	for _, tc := range []struct {
		change func(p *guard.Resource)
		want   string
	}{
		{func(p *guard.Resource) { p.Name = "" }, `guard: shop.Get (shop.go:7): policy "": name: "": want 1 to 64 letters a to z, digits, '.', '_' and '-', with a letter or digit first`},
		{func(p *guard.Resource) { p.Name = "a b" }, `guard: shop.Get (shop.go:7): policy "a b": name: "a b": want 1 to 64 letters a to z, digits, '.', '_' and '-', with a letter or digit first`},
		{func(p *guard.Resource) { p.Name = "system" }, `guard: shop.Get (shop.go:7): name "system": invalid: want another name: this one is reserved for the system rule`},
		{func(p *guard.Resource) { p.Limits = []weir.Limit{{}} }, `guard: shop.Get (shop.go:7): policy "f": limits[0]: want a limit made by weir.NewLimit or weir.ParseLimit, got the zero Limit`},
		{func(p *guard.Resource) { p.Limits = limits("1/s", "1/s") }, `guard: shop.Get (shop.go:7): policy "f": limits[1]: "1/s burst 1": want every limit once: it is limits[0] already`},
		{func(p *guard.Resource) { p.Wait = 2 * time.Minute }, `guard: shop.Get (shop.go:7): policy "f": on_denied.wait: 2m0s: want 0 to 1m`},
		{func(p *guard.Resource) { p.Wait = -1; p.Function = "" }, `guard: shop.go:7: policy "f": on_denied.wait: -1ns: want 0 to 1m`},
		{func(p *guard.Resource) { p.Name = "taken"; p.File = "" }, `guard: taken: invalid: limits [2/h burst 2] at b.go:2, and [100/m fixed_window] at shop.Get: guards of one name share their buckets, want the same or another name`},
		{func(p *guard.Resource) { p.Name = "taken"; p.Limits = limits("2/h"); p.Wait = 1 }, `guard: taken: invalid: wait 0s at b.go:2, and 1ns at shop.Get (shop.go:7): guards of one name share their buckets, want the same or another name`},
	} {
		r := registry(t, guard.Config{})
		r.MustGuard(guard.Resource{Name: "taken", Limits: limits("2/h"), File: "b.go", Line: 2})
		p := at
		tc.change(&p)
		g, err := r.Guard(p)
		if g != nil || err == nil || err.Error() != tc.want || !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("Guard(%+v) = %v, %v\nwant %s", p, g, err, tc.want)
		}
		if n := len(r.Live()); n != 1 {
			t.Errorf("%d guards after %v, want 1", n, err)
		}
		func() {
			defer func() {
				if p := recover(); fmt.Sprint(p) != tc.want {
					t.Errorf("MustGuard panics with %v, want %s", p, tc.want)
				}
			}()
			r.MustGuard(p)
		}()
	}
}

// TestBadConfigs checks that an error names the invalid field, and that nothing changes.
func TestBadConfigs(t *testing.T) {
	good := policy.Config{Name: "f", Limits: limits("5/h")}
	bad := func(change func(*policy.Config)) *guard.Functions {
		c := good
		change(&c)
		return functions(rule(t, c))
	}
	system := func(r guard.Rule) *guard.Functions { return &guard.Functions{System: &r} }
	var many []weir.Limit
	for i := range bounds.MaxBatch {
		many = append(many, weir.MustLimit(fmt.Sprint(i+1, "/h")))
	}
	crowd := rule(t, policy.Config{Name: "system", Limits: many})
	for _, tc := range []struct {
		c    guard.Config
		want string
	}{
		{guard.Config{Options: enforce.Options{MaxWaiters: -1}}, `guard: enforce: MaxWaiters: invalid: got -1, want 0 or more`},
		{guard.Config{Options: enforce.Options{Local: (*memstore.Store)(nil)}}, `guard: enforce: Local: invalid: got a nil *memstore.Store, want a store or none`},
		{guard.Config{Store: (*memstore.Store)(nil)}, `guard: Store: invalid: want a store or none, got a nil *memstore.Store`},
		{guard.Config{Functions: &guard.Functions{Mode: "on"}}, `guard: functions: mode: invalid: want enforce, shadow or off, got "on"`},
		{guard.Config{Functions: functions(guard.Rule{})}, `guard: functions: rules[0]: "": invalid: want a name of 1 to 64 letters a to z, digits, '.', '_' and '-', with a letter or digit first`},
		{guard.Config{Functions: functions(guard.Rule{Name: "g"})}, `guard: functions: rules[0]: "g": invalid: want limits, a breaker, adaptive or a bulkhead, got none of them`},
		{guard.Config{Functions: functions(guard.Rule{Name: "g", Policy: rule(t, good).Policy})}, `guard: functions: rules[0]: invalid: want one name, got "g" and a policy "f"`},
		{guard.Config{Functions: functions(rule(t, good), rule(t, good))}, `guard: functions: rules[1]: invalid: want every name once, got "f" again`},
		{guard.Config{Functions: bad(func(c *policy.Config) { c.Name = "system" })}, `guard: functions: rules[0]: "system": invalid: want another name: this one is reserved for the system rule`},
		{guard.Config{Functions: bad(func(c *policy.Config) { c.Key = []policy.KeyPart{{Source: policy.ClientIP}} })}, `guard: functions: rules[0]: "f": invalid: key: want guard.KeyPart alone, got [client.ip]`},
		{guard.Config{Functions: bad(func(c *policy.Config) { c.Key = []policy.KeyPart{guard.KeyPart(), {Source: policy.ClientIP}} })}, `guard: functions: rules[0]: "f": invalid: key: want guard.KeyPart alone, got [cel:argument client.ip]`},
		{guard.Config{Functions: bad(func(c *policy.Config) { c.Match.Paths = []string{"/a"} })}, `guard: functions: rules[0]: "f": invalid: match: want none: a rule applies to the calls of its name`},
		{guard.Config{Functions: bad(func(c *policy.Config) { c.Settle.Header = "X-Cost" })}, `guard: functions: rules[0]: "f": invalid: cost: want no header or json: a call has no response`},
		{guard.Config{Functions: functions(guard.Rule{Name: "f", Settings: breaker})}, `guard: functions: rules[0]: "f": invalid: has a breaker, adaptive or bulkhead: got nil Config.Protections, want a function`},
		{guard.Config{Functions: functions(guard.Rule{Name: "f", Settings: breaker}), Protections: func(string, guard.Settings) ([]guard.Protection, error) { return nil, errDown }}, `guard: functions: rules[0]: "f": invalid: store down`},
		{guard.Config{Functions: system(guard.Rule{})}, `guard: functions: system: invalid: want limits, a breaker, adaptive or a bulkhead, got none of them`},
		{guard.Config{Functions: system(rule(t, good))}, `guard: functions: system: invalid: want one name, got "system" and a policy "f"`},
		{guard.Config{Functions: system(crowd)}, `guard: policy "f": limits: 257 limits with those of other policies for GET /: want at most 256 for a request in all enforced policies, which a store decides together`},
	} {
		r := registry(t, guard.Config{Functions: functions(rule(t, good))})
		g := r.MustGuard(guard.Resource{Name: "f"})
		if err := r.Configure(tc.c); err == nil || err.Error() != tc.want || !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("Configure = %v\nwant %s", err, tc.want)
		}
		if got := passed(t, g, "", 9); got != 5 {
			t.Errorf("after %s, %d pass, want 5 as before", tc.want, got)
		}
	}
	if r, err := guard.NewRegistry(guard.Config{Options: enforce.Options{MaxWaiters: -1}}); r != nil || !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("NewRegistry = %v, %v", r, err)
	}
}

// TestBadResources checks that an invalid name is an error, and is not kept.
func TestBadResources(t *testing.T) {
	r := registry(t, guard.Config{})
	for _, name := range []string{"", "a b", "seckill:101", "…", "system", strings.Repeat("a", 65), ".a"} {
		e, err := r.Enter(context.Background(), name, "")
		if e != nil || !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("Enter(%q) = %v, %v, want an error", name, e, err)
		}
	}
	_, err := r.Enter(context.Background(), "a b", "")
	if want := `guard: resource "a b": invalid: want 1 to 64 letters a to z, digits, '.', '_' and '-', with a letter or digit first, but not "system"`; fmt.Sprint(err) != want {
		t.Errorf("Enter = %v\nwant %s", err, want)
	}
	if live := r.Live(); len(live) != 0 {
		t.Errorf("Live = %+v, want nothing", live)
	}
}

// TestManyResources checks that a bounded number of names is kept, and all with a rule.
func TestManyResources(t *testing.T) {
	r := registry(t, guard.Config{})
	enter := func(name string) error {
		e, err := r.Enter(context.Background(), name, "")
		e.Exit(nil)
		return err
	}
	const most = 10_000
	for i := range most + 500 {
		if err := enter(fmt.Sprint("n", i)); err != nil {
			t.Fatal(err)
		}
	}
	live := r.Live()
	if last := live[len(live)-1]; len(live) != most+1 || last.Name != "…" || last.Passed != 500 {
		t.Errorf("%d resources, the last %+v, want %d and one for 500 others", len(live), last, most)
	}
	system := rule(t, policy.Config{Name: "system", Limits: limits("1/h")})
	configure(t, r, guard.Config{Functions: &guard.Functions{System: &system, Rules: []guard.Rule{
		rule(t, policy.Config{Name: "late", Limits: limits("1/h")})}}})
	if err := enter("m1"); err != nil {
		t.Error(err)
	}
	if err := enter("m2"); !errors.Is(err, guard.ErrDenied) {
		t.Errorf("one of many, under a used up system: %v", err)
	}
	if err := enter("late"); !errors.Is(err, guard.ErrDenied) {
		t.Errorf("one with a rule, under a used up system: %v", err)
	}
	if s := r.Live()[0]; s.Name != "late" || s.Denied != 1 {
		t.Errorf("Live begins with %+v, want late, which has a rule", s)
	}
}

// TestLive checks the list of guards and resources.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t, guard.Config{Functions: functions(
			rule(t, policy.Config{Name: "b", Limits: limits("2/h", "9/24h")}),
			rule(t, policy.Config{Name: "z", Limits: limits("1/s"), Mode: policy.Shadow}))})
		g := r.MustGuard(guard.Resource{Name: "b", Function: "shop.B", File: "shop.go", Line: 3, BuiltBy: guard.Generated})
		r.MustGuard(guard.Resource{Name: "b", Function: "shop.A", BuiltBy: guard.Woven})
		for _, err := range []error{nil, errDown} {
			e, _ := g.Enter(context.Background(), "")
			time.Sleep(1500 * time.Millisecond)
			e.Exit(err)
		}
		passed(t, g, "", 3)
		if _, err := r.Enter(context.Background(), "a", ""); err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		const want = `[` +
			`{"name":"a","limits":[],"rule":false,"mode":"enforce","passed":1,"denied":0,"undecided":0,"failed":0,"key_faults":0,"running":1,"busy_seconds":0},` +
			`{"name":"b","function":"shop.A","built_by":"woven","limits":["2/h burst 2","9/24h burst 9"],"rule":true,"mode":"enforce","passed":0,"denied":0,"undecided":0,"failed":0,"key_faults":0,"running":0,"busy_seconds":0},` +
			`{"name":"b","function":"shop.B","file":"shop.go","line":3,"built_by":"generated","limits":["2/h burst 2","9/24h burst 9"],"rule":true,"mode":"enforce","passed":2,"denied":3,"undecided":0,"failed":1,"key_faults":0,"running":0,"busy_seconds":3},` +
			`{"name":"z","limits":["1/s burst 1"],"rule":true,"mode":"shadow","passed":0,"denied":0,"undecided":0,"failed":0,"key_faults":0,"running":0,"busy_seconds":0}]`
		var got struct{ Functions []json.RawMessage }
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, f := range got.Functions {
			var b strings.Builder
			for _, line := range strings.Split(string(f), "\n") {
				b.WriteString(strings.Replace(strings.TrimSpace(line), `": `, `":`, 1))
			}
			all = append(all, b.String())
		}
		if got := "[" + strings.Join(all, ",") + "]"; got != want {
			t.Errorf("GET =\n%s\nwant\n%s", got, want)
		}
		for method, status := range map[string]int{"GET": 200, "HEAD": 200, "POST": 405, "DELETE": 405} {
			w := httptest.NewRecorder()
			r.ServeHTTP(w, httptest.NewRequest(method, "/", nil))
			if w.Code != status || status == 405 && w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s = %d %v", method, w.Code, w.Header())
			}
		}
	})
}

// TestEmptyLive checks that an empty registry responds with an empty list.
func TestEmptyLive(t *testing.T) {
	w := httptest.NewRecorder()
	registry(t, guard.Config{}).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if got, want := w.Body.String(), "{\n  \"functions\": []\n}\n"; got != want {
		t.Errorf("GET = %q, want %q", got, want)
	}
}

// TestWhere checks the position of a guard that the program makes itself.
func TestWhere(t *testing.T) {
	r := registry(t, guard.Config{})
	r.MustGuard(guard.Resource{Name: "a"})
	if _, err := r.Guard(guard.Resource{Name: "b"}); err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Live() {
		if !strings.HasSuffix(s.Function, "guard_test.TestWhere") || !strings.HasSuffix(s.File, "registry_test.go") || s.Line == 0 {
			t.Errorf("%s stands at %s, %s:%d", s.Name, s.Function, s.File, s.Line)
		}
	}
}

// TestDefault checks that there is one default registry.
func TestDefault(t *testing.T) {
	if one, other := guard.Default(), guard.Default(); one != other {
		t.Error("two registries of the process")
	}
	e, err := guard.Enter(context.Background(), "TestDefault")
	if err != nil {
		t.Fatal(err)
	}
	e.Exit(nil)
	for _, s := range guard.Default().Live() {
		if s.Name == "TestDefault" && s.Passed > 0 {
			return
		}
	}
	t.Error("it does not list what Enter was asked for")
}

// TestNilEntry checks that the methods of a nil entry do nothing.
func TestNilEntry(t *testing.T) {
	var e *guard.Entry
	e.Exit(nil)
	e.Exit(errDown)
	func() (err error) {
		defer e.Done(&err)
		return nil
	}()
	if d := e.Decision(); d.OK {
		t.Errorf("Decision() = %+v", d)
	}
	var g *guard.Guard
	if _, err := g.Enter(context.Background(), ""); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("Enter of a nil Guard = %v", err)
	}
	e, err := registry(t, guard.Config{}).Enter(context.Background(), "r", "")
	if err != nil || !e.Decision().OK {
		t.Errorf("Decision of a resource without limits = %+v, %v", e.Decision(), err)
	}
	e.Done(nil)
}

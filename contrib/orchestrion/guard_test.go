package orchestrion_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/contrib/orchestrion"
	"github.com/floodweir/weir/guard"
)

const here = "github.com/floodweir/weir/contrib/orchestrion_test"

// status is what the registry of the process tells of a guard.
func status(t *testing.T, name string) guard.Status {
	t.Helper()
	for _, s := range guard.Default().Live() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no guard %s is live", name)
	return guard.Status{}
}

func limits(s guard.Status) string {
	var all []string
	for _, l := range s.Limits {
		all = append(all, l.String())
	}
	return strings.Join(all, ", ")
}

func TestFields(t *testing.T) {
	for name, c := range map[string]struct {
		fields []string
		limits string
	}{
		"t.none":      {nil, guard.DefaultLimit().String()},
		"t.count":     {[]string{"limit=2"}, "2/60s fixed_window"},
		"t.colon":     {[]string{"limit:2", "interval:10"}, "2/10s fixed_window"},
		"t.interval":  {[]string{"interval=1m30s"}, "100/90s fixed_window"},
		"t.algorithm": {[]string{"limit=2", "interval=10", "algorithm=sliding_log"}, "2/10s sliding_log"},
		"t.gcra":      {[]string{"limit=2", "interval=10", "algorithm=gcra"}, "2/10s"},
		"t.text":      {[]string{"limit=10/s"}, "10/s"},
		"t.quoted":    {[]string{`limit="10/s burst 20, 1000/h"`}, "10/s burst 20, 1000/h"},
		"t.unquoted":  {[]string{"limit:10/s burst 20, 1000/h"}, "10/s burst 20, 1000/h"},
		"t.names":     {[]string{"key=item,req.User.ID", "fallback=browse"}, guard.DefaultLimit().String()},
		"t.called":    {[]string{"key:a, b", "fallback=s.browse()"}, guard.DefaultLimit().String()},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := orchestrion.Guard("", "Price", append([]string{"name=" + name}, c.fields...)...); err != nil {
				t.Fatal(err)
			}
			var want []string
			for text := range strings.SplitSeq(c.limits, ",") {
				want = append(want, weir.MustLimit(strings.TrimSpace(text)).String())
			}
			s := status(t, name)
			if got := limits(s); got != strings.Join(want, ", ") {
				t.Errorf("limits are %s, want %s", got, strings.Join(want, ", "))
			}
			if s.BuiltBy != guard.Woven {
				t.Errorf("made is %q, want woven", s.BuiltBy)
			}
		})
	}
}

func TestSite(t *testing.T) {
	for _, c := range []struct{ receiver, function, name, site string }{
		{"", "Site", "Site", here + ".Site"},
		{"Shop", "Site", "Shop.Site", here + ".Shop.Site"},
		{"*Shop", "PSite", "Shop.PSite", here + ".(*Shop).PSite"},
	} {
		if _, err := orchestrion.Guard(c.receiver, c.function); err != nil {
			t.Fatal(err)
		}
		s := status(t, guard.Name(here, c.receiver, c.function))
		if s.Function != c.site || s.File != "guard_test.go" || s.Line == 0 {
			t.Errorf("Guard(%q, %q) stands at %s, %s:%d, want %s, guard_test.go", c.receiver, c.function, s.Function, s.File, s.Line, c.site)
		}
	}
}

func TestDenied(t *testing.T) {
	g := orchestrion.MustGuard("", "Denied", "limit=2", `message="too many: wait"`)
	for i, want := range []bool{true, true, false} {
		entry, err := g.Enter(t.Context(), "")
		entry.Exit(nil)
		if (err == nil) != want {
			t.Fatalf("call %d: %v, want let through %t", i+1, err, want)
		}
		var denied *guard.Denied
		if err != nil && (!errors.As(err, &denied) || denied.Message != "too many: wait") {
			t.Errorf("call %d: %v, want *guard.Denied with the message", i+1, err)
		}
	}
}

func TestWait(t *testing.T) {
	g := orchestrion.MustGuard("", "Wait", "limit=1", "interval=40ms", "wait=1s")
	start := time.Now()
	for range 2 {
		if _, err := g.Enter(context.Background(), ""); err != nil {
			t.Fatal(err)
		}
	}
	if d := time.Since(start); d < 20*time.Millisecond {
		t.Errorf("the second call waited %v, want to the next window", d)
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct{ fields, want string }{
		{"limit", `"limit": want a field such as limit=10`},
		{"=3", `"=3": want a field such as limit=10`},
		{"limits=3", `unknown field "limits": want name, key, limit, interval, algorithm, wait, message or fallback`},
		{"limit=3|limit:4", "limit is said twice: want it once"},
		{"limit=", "limit: want a value after the ="},
		{`limit=""`, "limit: want a value after the ="},
		{"cost=2", "cost cannot be woven by orchestrion: want weir go or weir generate"},
		{"degrade=f", "degrade cannot be woven by orchestrion: want weir go or weir generate"},
		{"onerror:f", "onerror cannot be woven by orchestrion: want weir go or weir generate"},
		{"limit=0", "count"},
		{"limit=-1", "count"},
		{"limit=x", `limit "x": want a number, or limits such as "10/s burst 20"`},
		{"limit=10/s,", `limit "10/s,": want a number, or limits such as "10/s burst 20"`},
		{"limit=10/s|interval=3", `interval "3": want it with a limit that is a number; limit="10/s" says all itself`},
		{"limit=10/s|algorithm=gcra", `algorithm "gcra": want it with a limit that is a number`},
		{"interval=soon", `interval "soon": want seconds such as 10, or a duration such as 1m30s`},
		{"interval=-1", `interval "-1": want seconds`},
		{"interval=99999999999999", `interval "99999999999999": want seconds`},
		{"algorithm=luck", "luck"},
		{"wait=2m", `wait "2m": want a duration such as 300ms, at most 1m`},
		{"wait=5", `wait "5": want a duration`},
		{"name=a b", "a b"},
		{"name=system", "system"},
		{"key=5", `key "5": want parameters such as userID`},
		{"key=f(x)", `key "f(x)": want parameters`},
		{"key=a,", `key "a,": want parameters`},
		{`key="a"`, "key: want it without quotes and spaces"},
		{"fallback=f(1)", `fallback "f(1)": want a function such as browse`},
		{`fallback="f"`, "fallback: want it without quotes and spaces"},
		{`message="a`, "message: want a value in double quotes"},
		{`message=a"b"`, `message: want quotes around the whole value`},
	} {
		t.Run(c.fields, func(t *testing.T) {
			_, err := orchestrion.Guard("*Shop", "Bad", strings.Split(c.fields, "|")...)
			if err == nil {
				t.Fatal("it is accepted")
			}
			if !errors.Is(err, weir.ErrInvalid) {
				t.Errorf("%v does not wrap weir.ErrInvalid", err)
			}
			if got := err.Error(); strings.Count(got, "invalid") > 1 || !strings.HasPrefix(got, "orchestrion: weir:limit on "+here+".(*Shop).Bad: ") || !strings.Contains(got, c.want) {
				t.Errorf("error is\n%s\nwant one with\n%s", got, c.want)
			}
		})
	}
}

func TestOneName(t *testing.T) {
	orchestrion.MustGuard("", "One", "name=one", "limit=1")
	if _, err := orchestrion.Guard("", "Two", "name=one", "limit=1"); err != nil {
		t.Errorf("two functions of one name and limit: %v", err)
	}
	_, err := orchestrion.Guard("", "Three", "name=one", "limit=3")
	if !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("two limits of one name: %v, want weir.ErrInvalid", err)
	}
}

func TestMustGuard(t *testing.T) {
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("panic with %v, want an error that wraps weir.ErrInvalid", err)
		}
	}()
	orchestrion.MustGuard("", "Must", "cost=2")
}

// FuzzFields shows that no directive ends in anything but a guard or an error of this package.
func FuzzFields(f *testing.F) {
	for _, s := range []string{"limit=2", `limit="10/s burst 20"`, "limit:10/s, 5/m", "interval=1m", "key=a.b,c", "fallback=f()", `message="\""`, "wait=1s", "=", `message="`, "interval=9223372036854775807"} {
		f.Add(s, "name=fuzz")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if _, err := orchestrion.Guard("", "Fuzz", a, b); err != nil && !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("Guard(%q, %q): %v does not wrap weir.ErrInvalid", a, b, err)
		}
	})
}

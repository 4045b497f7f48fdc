package directive_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/directive"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct{ text, limits, want string }{
		{"", "", ""},
		{"  \t", "", ""},
		{" name=getId limit=10 period=10 key=userID fallback=f", "10/10s fixed_window", "name=getId key=userID fallback=f"},
		{" limit=10", "10/m fixed_window", ""},
		{" period=10", "100/10s fixed_window", ""},
		{" period=1m30s limit=7", "7/90s fixed_window", ""},
		{" algorithm=sliding_log", "100/m sliding_log", ""},
		{" limit=5 algorithm=gcra", "5/m burst 5", ""},
		{" limit=5 algorithm=concurrency period=30s", "5 concurrency lease 30s", ""},
		{" limit=10/10s", "10/10s burst 10", ""},
		{` limit="10/s burst 20"`, "10/s burst 20", ""},
		{` limit="10/s burst 20, 1000/h"`, "10/s burst 20;1000/h burst 1000", ""},
		{` limit="100000/month calendar Asia/Shanghai"`, "100000/month fixed_window calendar Asia/Shanghai", ""},
		{" key=a,b.C.D cost=n wait=300ms", "", "key=a,b.C.D wait=300ms keys=a|b.C.D cost=n"},
		{` key="a, b"`, "", "key=a, b keys=a|b"},
		{` message="say \"no\"" degrade=d onerror=e1,e2`, "", `message=say "no" degrade=d links=e1|e2`},
		{" cost=3\tname=a\r", "", "name=a cost=3"},
	} {
		d, err := directive.Parse(tc.text)
		if err != nil {
			t.Errorf("Parse(%q) = %v", tc.text, err)
			continue
		}
		var limits []string
		for _, l := range d.Limits {
			limits = append(limits, l.String())
		}
		if got := strings.Join(limits, ";"); got != tc.limits {
			t.Errorf("Parse(%q).Limits = %s, want %s", tc.text, got, tc.limits)
		}
		if tc.want == "" {
			continue
		}
		have := said(d)
		for _, want := range strings.Split(strings.ReplaceAll(tc.want, ", ", ",_"), " ") {
			if !strings.Contains(have, strings.ReplaceAll(want, ",_", ", ")) {
				t.Errorf("Parse(%q) = %s, want %s in it", tc.text, have, want)
			}
		}
	}
}

// TestParseNotes checks that the former name of period is read with a note.
func TestParseNotes(t *testing.T) {
	for text, want := range map[string]string{
		" limit=10 interval=10": "directive: column 11: interval is the old name of this field: use period=10",
		" limit=10 period=10":   "",
	} {
		d, err := directive.Parse(text)
		if err != nil || d.Limits[0].String() != "10/10s fixed_window" {
			t.Fatalf("Parse(%q) = %+v, %v, want 10/10s", text, d, err)
		}
		got := ""
		for _, n := range d.Notes {
			got += n.Error()
		}
		if got != want {
			t.Errorf("Parse(%q).Notes = %q, want %q", text, got, want)
		}
	}
}

// said formats a directive on one line.
func said(d *directive.Directive) string {
	var b strings.Builder
	say := func(name string, v directive.Value) {
		if v.Set {
			fmt.Fprintf(&b, "%s=%s ", name, v.Text)
		}
	}
	say("name", d.Name)
	say("key", d.Key)
	say("cost", d.Cost)
	say("message", d.Message)
	say("fallback", d.Fallback)
	say("degrade", d.Degrade)
	for _, l := range []struct {
		name   string
		values []directive.Value
	}{{"keys", d.Keys}, {"links", d.Links}} {
		var all []string
		for _, v := range l.values {
			all = append(all, v.Text)
		}
		fmt.Fprintf(&b, "%s=%s ", l.name, strings.Join(all, "|"))
	}
	if d.MaxWait > 0 {
		fmt.Fprintf(&b, "wait=%v", d.MaxWait)
	}
	return b.String()
}

func TestParseErrors(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{" limit", `column 2: "limit": want a field such as limit=10`},
		{" =10", `column 2: "=10": want a field such as limit=10`},
		{" limt=10", `column 2: unknown field "limt": want name, key, limit, period, algorithm, cost, wait, message, fallback, degrade, onerror or errors`},
		{" period=1 interval=2", "column 11: interval is given twice: want it once"},
		{" limit=1 limit=2", "column 10: limit is given twice: want it once"},
		{" name=", "column 7: name: want a value after the ="},
		{` name=""`, "column 8: name: want a value after the ="},
		{` message="no end`, `column 10: message: want a value that ends with a quote, with \" and \\ for what is none`},
		{` message="a"b`, "column 13: message: want a space after the value"},
		{` limit=1"0"`, `column 9: limit: want quotes around the whole value, as in limit="10/s burst 20"`},
		{" name=a/b", `column 7: name "a/b": want 1 to 64 letters a to z, digits, '.', '_' and '-', with a letter or digit first`},
		{" name=system", `column 7: name "system": want another name: this one is reserved for the rule of the whole program`},
		{" limit=10/x", `column 8: limit "10/x": want a number, or limits such as "10/s burst 20": period: want a duration such as 1m30s, or s, minute, day, month and the like, got "x"`},
		{` limit="10/s, ten"`, `column 15: limit "ten": want a number, or limits such as "10/s burst 20": count: want a whole number, got "ten"`},
		{` limit="10/s, 10/1s"`, `column 15: limit "10/1s": is given twice: want it once`},
		{" limit=0", `column 8: limit "0": count 0: out of range: want 1 to 1099511627776`},
		{" limit=10/s period=3", `column 20: period "3": want it only with a limit that is a number; limit="10/s" is a whole limit`},
		{" limit=10/s algorithm=gcra", `column 23: algorithm "gcra": want it only with a limit that is a number; limit="10/s" is a whole limit`},
		{" period=0", `column 9: period "0": want seconds such as 10, or a duration such as 1m30s`},
		{" period=-1s", `column 9: period "-1s": want seconds such as 10, or a duration such as 1m30s`},
		{" period=99999999999999", `column 9: period "99999999999999": want seconds such as 10, or a duration such as 1m30s`},
		{" algorithm=magic", `column 12: algorithm "magic": want token_bucket, leaky_bucket, fixed_window, sliding_window, sliding_log or concurrency`},
		{" key=a+b", `column 6: key "a+b": want a parameter such as userID, or a field of one such as req.UserID, or instance()`},
		{" key=a,", `column 8: key "": want a parameter such as userID, or a field of one such as req.UserID, or instance()`},
		{" key=get-id", `column 6: key "get-id": want a parameter such as userID, or a field of one such as req.UserID, or instance(), or name=get-id to name the limit`},
		{" key=f()", `column 6: key "f()": want a parameter such as userID, or a field of one such as req.UserID, or instance()`},
		{" cost=0", `column 7: cost "0": want a whole number from 1 on, or a parameter`},
		{" cost=1.5", `column 7: cost "1.5": want a whole number from 1 on, or a parameter`},
		{" wait=3", `column 7: wait "3": want a duration such as 300ms, at most 1m`},
		{" wait=61s", `column 7: wait "61s": want a duration such as 300ms, at most 1m`},
		{" fallback=a degrade=b", `column 21: degrade "b": want fallback or degrade, not both`},
		{" fallback=p.F", `column 11: fallback "p.F": want the name of a function, a method, a variable or a constant of this package`},
		{" onerror=a errors=every", `column 19: errors "every": want all, for errors that the function returns too, or store, the default`},
		{" errors=all", `column 9: errors "all": want it with onerror, which handles these errors`},
		{" onerror=a,,b", `column 12: onerror "": want names of functions, separated by commas`},
	} {
		d, err := directive.Parse(tc.text)
		if want := "directive: " + tc.want; err == nil || err.Error() != want {
			t.Errorf("Parse(%q) = %v, %v, want\n%s", tc.text, d, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", " name=getId limit=10 period=10 key=userID fallback=f", ` limit="10/s burst 20, 1000/h" wait=3s`,
		` message="a\"b" degrade=x onerror=a,b`, " key=a,b.c cost=n", " limit=5 algorithm=concurrency", ` key="a, b"`, " =", ` name="`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := directive.Parse(text)
		if err != nil {
			var e *directive.Error
			if !errors.As(err, &e) || e.At < 0 || e.At > len(text) || e.Message == "" {
				t.Errorf("Parse(%q) = %#v, want an Error with a place in the text", text, err)
			}
			return
		}
		for _, v := range append(append(d.Keys, d.Links...), d.Name, d.Limit, d.Period, d.Cost, d.Fallback, d.Message) {
			if v.Set && (v.At < 0 || v.At > len(text)) {
				t.Errorf("Parse(%q): %q at %d", text, v.Text, v.At)
			}
		}
		if d.MaxWait < 0 || d.MaxWait > time.Minute || d.Limit.Set && len(d.Limits) == 0 {
			t.Errorf("Parse(%q) = %+v", text, d)
		}
	})
}

func ExampleParse() {
	d, err := directive.Parse(` name=getId limit="10/s burst 20, 1000/h" key=userID`)
	fmt.Println(d.Name.Text, d.Limits[0], d.Keys[0].Text, err)
	_, err = directive.Parse(" limit=10/10")
	fmt.Println(err)
	// Output:
	// getId 10/s burst 20 userID <nil>
	// directive: column 8: limit "10/10": want a number, or limits such as "10/s burst 20": period: want a duration such as 1m30s, or s, minute, day, month and the like, got "10"
}

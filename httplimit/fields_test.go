package httplimit_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
)

func decision(limit string, ok bool, remaining int64, retry, reset time.Duration) weir.Decision {
	return weir.Decision{OK: ok, Limit: weir.MustLimit(limit), Remaining: remaining, RetryAfter: retry, ResetAfter: reset}
}

func TestFieldsByDraft(t *testing.T) {
	admitted := []httplimit.Item{
		{Name: "burst", Decision: decision("10/s burst 20", true, 7, 0, 1300*time.Millisecond)},
		{Name: "daily", Decision: decision("5000/24h fixed_window", true, 4999, 0, 10*time.Hour)},
		{Name: "odd", Decision: decision("10/s burst 15", true, 15, 0, 0)},
	}
	denied := []httplimit.Item{
		{Name: "burst", Decision: decision("10/s burst 20", false, 0, 100*time.Millisecond, 2*time.Second)},
		{Name: "daily", Decision: decision("5000/24h fixed_window", true, 4999, 0, 10*time.Hour)},
	}
	for _, tc := range []struct {
		fields httplimit.Fields
		items  []httplimit.Item
		want   []string
	}{
		{httplimit.Legacy, admitted, []string{"X-Ratelimit-Limit: 20", "X-Ratelimit-Remaining: 7", "X-Ratelimit-Reset: 2"}},
		{httplimit.Legacy, denied, []string{"X-Ratelimit-Limit: 20", "X-Ratelimit-Remaining: 0", "X-Ratelimit-Reset: 1"}},
		{httplimit.Draft03, admitted, []string{"Ratelimit-Limit: 20, 20;w=2, 5000;w=86400", "Ratelimit-Remaining: 7", "Ratelimit-Reset: 2"}},
		{httplimit.Draft06, denied, []string{"Ratelimit-Limit: 20", "Ratelimit-Policy: 20;w=2, 5000;w=86400", "Ratelimit-Remaining: 0", "Ratelimit-Reset: 1"}},
		{httplimit.Draft07, admitted, []string{"Ratelimit: limit=20, remaining=7, reset=2", "Ratelimit-Policy: 20;w=2, 5000;w=86400"}},
		{httplimit.Draft08, admitted, []string{
			`Ratelimit: "burst";r=7;t=2, "daily";r=4999;t=36000, "odd";r=15;t=0`, `Ratelimit-Policy: "burst";q=20;w=2, "daily";q=5000;w=86400, "odd";q=15`,
		}},
		{httplimit.Draft08, denied, []string{`Ratelimit: "burst";r=0;t=1`, `Ratelimit-Policy: "burst";q=20;w=2, "daily";q=5000;w=86400`}},
		{0, denied[:1], []string{
			`Ratelimit: "burst";r=0;t=1`, `Ratelimit-Policy: "burst";q=20;w=2`, "X-Ratelimit-Limit: 20", "X-Ratelimit-Remaining: 0", "X-Ratelimit-Reset: 1",
		}},
		{httplimit.Draft03, admitted[2:], []string{"Ratelimit-Limit: 15", "Ratelimit-Remaining: 15", "Ratelimit-Reset: 0"}},
		{httplimit.Draft06, admitted[2:], []string{"Ratelimit-Limit: 15", "Ratelimit-Remaining: 15", "Ratelimit-Reset: 0"}},
		{httplimit.Draft07, admitted[2:], []string{"Ratelimit: limit=15, remaining=15, reset=0"}},
		{httplimit.NoFields, admitted, nil},
		{httplimit.DefaultFields, nil, nil},
	} {
		h := http.Header{}
		tc.fields.Set(h, tc.items...)
		var got []string
		for name, values := range h {
			if len(values) != 1 {
				t.Errorf("%s: %d lines of %s, want 1", tc.fields, len(values), name)
			}
			if !slices.Contains(tc.fields.Names(), name) {
				t.Errorf("%s: sets %s, which Names does not have", tc.fields, name)
			}
			got = append(got, name+": "+values[0])
		}
		slices.Sort(got)
		slices.Sort(tc.want)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s:\n got %q\nwant %q", tc.fields, got, tc.want)
		}
	}
}

// TestWindow checks which limits have a window in the fields, and its length.
func TestWindow(t *testing.T) {
	for limit, want := range map[string]string{
		"10/s":                            `"p";q=10;w=1`,
		"10/s burst 20":                   `"p";q=20;w=2`,
		"10/s burst 15":                   `"p";q=15`,
		"100/ms":                          `"p";q=100`,
		"1/1500ms burst 2":                `"p";q=2;w=3`,
		"100/m fixed_window":              `"p";q=100;w=60`,
		"100/m sliding_window":            `"p";q=100;w=60`,
		"100/m sliding_log":               `"p";q=100;w=60`,
		"3/s leaky_bucket burst 5":        `"p";q=6;w=2`,
		"100/30s interval":                `"p";q=100;w=30`,
		"1000/day calendar UTC":           `"p";q=1000;w=86400`,
		"1000/week calendar UTC":          `"p";q=1000;w=604800`,
		"1000/day calendar Europe/Berlin": `"p";q=1000`,
		"100000/month":                    `"p";q=100000`,
		"20 concurrency":                  `"p";q=20;qu="concurrent-requests"`,
		"1099511627776/s":                 `"p";q=1099511627776;w=1`,
		"1/876600h":                       `"p";q=1;w=3155760000`,
	} {
		h := http.Header{}
		l, err := weir.ParseLimit(limit)
		if err != nil {
			t.Error(err)
			continue
		}
		httplimit.Draft08.Set(h, httplimit.Item{Name: "p", Decision: weir.Decision{OK: true, Limit: l}})
		if got := h.Get("RateLimit-Policy"); got != want {
			t.Errorf("RateLimit-Policy of %s = %s, want %s", limit, got, want)
		}
	}
}

// FuzzFields checks that each field is well formed and contains integers only, for any
// numbers.
func FuzzFields(f *testing.F) {
	f.Add("p", int64(10), int64(20), int64(7), int64(0), int64(1e9), true)
	f.Add("a\"\\\r\n", int64(1), int64(1), int64(-5), int64(math.MaxInt64), int64(math.MaxInt64), false)
	f.Add("", int64(1<<40), int64(1<<40), int64(math.MinInt64), int64(math.MinInt64), int64(-1), false)
	f.Fuzz(func(t *testing.T, name string, count, burst, remaining, retry, reset int64, ok bool) {
		l, err := weir.NewLimit(weir.TokenBucket{Count: count, Period: time.Second, Burst: burst})
		if err != nil {
			return
		}
		d := weir.Decision{OK: ok, Limit: l, Remaining: min(remaining, l.Capacity()), RetryAfter: time.Duration(retry), ResetAfter: time.Duration(reset)}
		items := []httplimit.Item{{Name: name, Decision: d}, {Name: "other", Decision: decision("5/m", true, 1, 0, time.Minute)}}
		for _, fields := range []httplimit.Fields{httplimit.Legacy, httplimit.Draft03, httplimit.Draft06, httplimit.Draft07, httplimit.Draft08} {
			h := http.Header{}
			fields.Set(h, items...)
			for field, values := range h {
				if err := wellFormed(fields, field, values[0]); err != nil {
					t.Errorf("%s: %s: %s: %v", fields, field, values[0], err)
				}
			}
		}
	})
}

func wellFormed(fields httplimit.Fields, field, value string) error {
	if fields == httplimit.Draft07 && field == "Ratelimit" {
		m, err := parseDictionary(value)
		if err == nil && len(m) != 3 {
			err = fmt.Errorf("want limit, remaining and reset")
		}
		for _, it := range m {
			if n, ok := it.value.(int64); !ok || n < 0 {
				err = fmt.Errorf("want integers of 0 or more")
			}
		}
		return err
	}
	items, err := parseList(value)
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return fmt.Errorf("want a list that is not empty")
	}
	required := ""
	for _, it := range items {
		switch _, text := it.value.(string); {
		case fields == httplimit.Draft08 && !text:
			return fmt.Errorf("want names that are strings")
		case fields != httplimit.Draft08 && text:
			return fmt.Errorf("want integers")
		case fields == httplimit.Draft08:
			required = map[string]string{"Ratelimit": "r", "Ratelimit-Policy": "q"}[field]
		}
		if required != "" && it.params[required] == nil {
			return fmt.Errorf("want the parameter %s", required)
		}
		for key, v := range it.params {
			if n, ok := v.(int64); key != "qu" && (!ok || n < 0) || key == "w" && n == 0 {
				return fmt.Errorf("parameter %s = %v", key, v)
			}
		}
	}
	return nil
}

func TestParseFields(t *testing.T) {
	for _, tc := range []struct {
		names []string
		want  httplimit.Fields
	}{
		{nil, httplimit.DefaultFields},
		{[]string{"off"}, httplimit.NoFields},
		{[]string{"draft-08", "x-ratelimit"}, httplimit.DefaultFields},
		{[]string{"Draft-11"}, httplimit.Draft08},
		{[]string{"draft-03"}, httplimit.Draft03},
		{[]string{"legacy", "draft-07"}, httplimit.Legacy | httplimit.Draft07},
	} {
		got, err := httplimit.ParseFields(tc.names...)
		if err != nil || got != tc.want {
			t.Errorf("ParseFields(%q) = %s, %v, want %s", tc.names, got, err, tc.want)
		}
		if again, err := httplimit.ParseFields(strings.Fields(got.String())...); err != nil || again != got {
			t.Errorf("ParseFields of %s = %s, %v, want it back", got, again, err)
		}
	}
	for _, names := range [][]string{{""}, {"draft-12"}, {"draft-03", "draft-06"}, {"draft-07", "draft-08"}, {"off", "legacy"}} {
		if got, err := httplimit.ParseFields(names...); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("ParseFields(%q) = %s, %v, want an error that wraps weir.ErrInvalid", names, got, err)
		}
	}
}

// TestFieldsTogether checks that a set of forms sends the fields of each form.
func TestFieldsTogether(t *testing.T) {
	items := []httplimit.Item{{Name: "burst", Decision: decision("10/s burst 20", true, 7, 0, 1300*time.Millisecond)}}
	for _, draft := range []httplimit.Fields{httplimit.Draft03, httplimit.Draft06, httplimit.Draft07, httplimit.Draft08} {
		h, want := http.Header{}, http.Header{}
		(httplimit.Legacy | draft).Set(h, items...)
		httplimit.Legacy.Set(want, items...)
		draft.Set(want, items...)
		if !maps.EqualFunc(h, want, slices.Equal) {
			t.Errorf("legacy and %s = %v, want %v", draft, h, want)
		}
	}
}

package programs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/programs"
	"github.com/floodweir/weir/guard/instances"
	"github.com/floodweir/weir/redisstore"
)

// A redis is a Conn that runs the commands of package instances in Go.
type redis struct {
	err     error
	records map[string]string    // by key
	at      map[string]time.Time // by id
}

func (r *redis) Cluster() bool { return false }

func (r *redis) Do(_ context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
	ms := func(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }
	for i, c := range cmds {
		reply := &replies[i]
		switch reply.Err = r.err; {
		case r.err != nil:
		case c.Head[0] == "EVAL" && len(c.Keys) == 2:
			r.records[c.Keys[1]], r.at[c.Args[0]] = c.Args[1], time.Now()
			reply.Items = []string{"1"}
		case c.Head[0] == "EVAL":
			reply.Items = []string{ms(time.Now())}
			for id, at := range r.at {
				reply.Items = append(reply.Items, id, ms(at))
			}
		case c.Head[0] == "GET":
			reply.Items = []string{r.records[c.Keys[0]]}
		case c.Head[0] == "ZREM":
			delete(r.at, c.Args[0])
		}
	}
}

func post(h http.Handler, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/programs", strings.NewReader(body)))
	return w
}

// shop returns the report of a process that has a function.
func shop(n int, service string, version int64, f instances.Function) instances.Process {
	return instances.Process{ID: fmt.Sprintf("PROCESS%019d", n), Service: service, Version: version, Functions: []instances.Function{f}}
}

func TestFunctions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &redis{records: map[string]string{}, at: map[string]time.Time{}}
		conn := func() redisstore.Conn { return r }
		reports, functions := programs.Reports(conn, slog.Default()), programs.Functions(conn, slog.Default())
		report := func(ps ...instances.Process) {
			for _, p := range ps {
				body, err := json.Marshal(p)
				if err != nil {
					t.Fatal(err)
				}
				if w := post(reports, string(body)); w.Code != http.StatusNoContent {
					t.Fatalf("POST = %d %s", w.Code, w.Body)
				}
			}
		}
		rule := func(name, limit string) instances.Function {
			return instances.Function{Name: name, Function: "shop." + name, Limits: []string{limit}, Rule: true, Mode: "enforce"}
		}
		used := func(f instances.Function, calls, denied, failed float64, breaker string) instances.Function {
			f.Calls, f.Denied, f.Failed = calls, denied, failed
			if breaker != "" {
				f.Protections = map[string]string{"breaker": breaker, "bulkhead": "3 of 10"}
			}
			if breaker == "open" {
				f.BreakerOpen = 9.5
			}
			return f
		}
		report(shop(1, "shop", 41, rule("getId", "5/s")))
		time.Sleep(instances.StaleAfter)
		unused := rule("getId", "10/s")
		unused.Function = ""
		middleware := shop(8, "web", 42, instances.Function{})
		middleware.Functions, middleware.Problem = nil, "version 43: not valid"
		report(
			shop(2, "shop", 42, used(rule("getId", "10/s"), 10, 5, 2, "closed")),
			shop(3, "shop", 42, used(rule("getId", "10/s"), 10, 0, 1, "open")),
			shop(4, "cart", 41, used(rule("getId", "5/s"), 20, 5, 0, "half-open")),
			shop(5, "cart", 42, unused),
			shop(6, "cart", 42, instances.Function{Name: "add", Function: "cart.add", Limits: []string{"1/h"}, Mode: "shadow"}),
			middleware,
		)
		time.Sleep(2 * time.Second) // the time is that of now, not of the report
		w := httptest.NewRecorder()
		functions.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/functions", nil))
		var got struct {
			Functions []json.RawMessage
			Processes []struct {
				ID, Service, Problem string
				Version              int64
				SeenMS               int64 `json:"seen_ms"`
				Stale                bool
				Functions            []instances.Function
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		want := []string{
			`{"name":"add","programs":[{"service":"cart","processes":1,"outdated":0,"stale":0}],"limits":["1/h"],"source":"code","mode":"shadow","version":42,"calls":0,"denied_share":0,"failed_share":0,"breaker":""}`,
			`{"name":"getId","programs":[{"service":"cart","processes":1,"outdated":1,"stale":0},{"service":"shop","processes":2,"outdated":0,"stale":1}],"limits":["10/s"],"source":"rule","mode":"enforce","version":42,"calls":40,"denied_share":0.25,"failed_share":0.1,"breaker":"open","breaker_open_ms":7500}`,
		}
		for i := range max(len(want), len(got.Functions)) {
			if i >= len(want) || i >= len(got.Functions) || string(got.Functions[i]) != want[i] {
				t.Fatalf("functions:\n%s\nwant\n%s", got.Functions, want)
			}
		}
		for _, p := range got.Processes {
			old := p.ID == "PROCESS0000000000000000001"
			if p.Stale != old || (p.SeenMS == 12_000) != old || p.Functions == nil || (p.Problem == "") == (p.Service == "web") {
				t.Errorf("process %+v: want only the first stale, and the problem of web", p)
			}
		}
		left := shop(2, "shop", 42, instances.Function{})
		left.Left = true
		report(left)
		if w := httptest.NewRecorder(); true {
			functions.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/functions", nil))
			if strings.Contains(w.Body.String(), left.ID) {
				t.Error("a process that left is still listed")
			}
		}
	})
}

// TestReportErrors checks that invalid reports and a missing store are clear errors.
func TestReportErrors(t *testing.T) {
	r := &redis{records: map[string]string{}, at: map[string]time.Time{}}
	var conn redisstore.Conn = r
	reports := programs.Reports(func() redisstore.Conn { return conn }, slog.New(slog.DiscardHandler))
	functions := programs.Functions(func() redisstore.Conn { return conn }, slog.New(slog.DiscardHandler))
	const id = `"id":"ABCDEFGHIJKLMNOPQRSTUVWXYZ"`
	for body, field := range map[string]string{
		`{`:                               "body",
		`{"id":7}`:                        "id",
		`{"id":"short","service":"shop"}`: "id",
		`{"id":"abcdefghijklmnopqrstuvwxyz","service":"shop"}`: "id",
		`{` + id + `}`: "service",
		`{` + id + `,"service":"` + strings.Repeat("x", 65) + `"}`:                 "service",
		`{` + id + `,"service":"s","host":"` + strings.Repeat("x", 256) + `"}`:     "host",
		`{` + id + `,"service":"s","version":-1}`:                                  "version, pid, omitted",
		`{` + id + `,"service":"s","problem":"` + strings.Repeat("x", 300e3) + `"`: "body",
	} {
		w := post(reports, body)
		var p struct{ Field, Expected string }
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || !slices.Contains([]int{400, 413}, w.Code) || p.Field != field || p.Expected == "" {
			t.Errorf("POST %.60s = %d %s, want a problem with the field %s", body, w.Code, w.Body, field)
		}
	}
	good := `{` + id + `,"service":"s","problem":"` + strings.Repeat("é", 600) + `"}`
	if w := post(reports, good); w.Code != http.StatusNoContent {
		t.Errorf("POST = %d %s, want 204", w.Code, w.Body)
	}
	for _, record := range r.records {
		if len(record) > 1200 || !json.Valid([]byte(record)) {
			t.Errorf("record of %d bytes, want a shortened problem", len(record))
		}
	}
	r.err = errors.New("gone")
	get := func() int {
		w := httptest.NewRecorder()
		functions.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/functions", nil))
		return w.Code
	}
	if w := post(reports, good); w.Code != http.StatusServiceUnavailable || get() != http.StatusServiceUnavailable {
		t.Errorf("without Redis: %d and %d, want 503", w.Code, get())
	}
	if conn = nil; post(reports, good).Code != http.StatusNotFound || get() != http.StatusNotFound {
		t.Errorf("with a memory store: %d and %d, want 404", post(reports, good).Code, get())
	}
}

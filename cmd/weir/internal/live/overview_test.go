package live_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/live"
	"github.com/floodweir/weir/cmd/weir/internal/nodes/nodestest"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/guard/instances"
)

// An overview is the part of /v1/overview that these tests read.
type overview struct {
	Totals   struct{ Admitted, Denied float64 }
	Latency  struct{ P50, P99 float64 } `json:"latency_ms"`
	Policies []struct {
		Name         string
		Rate, Denied float64
		DeniedShare  float64 `json:"denied_share"`
		Limits       []string
		Trend        []*float64
	}
	Nodes []struct {
		Name    string
		Self    bool
		Stale   bool
		Problem string
	}
	NodesLive int `json:"nodes_live"`
	Problem   string
}

func (o *overview) String() string {
	text := fmt.Sprintf("admitted %v denied %v;", o.Totals.Admitted, o.Totals.Denied)
	for _, p := range o.Policies {
		text += fmt.Sprintf(" %s %v/%v", p.Name, p.Rate, p.Denied)
	}
	return text + fmt.Sprintf("; %d of %d nodes", o.NodesLive, len(o.Nodes))
}

// load records 10 s of traffic on several nodes: 2 admitted requests of api and i+1 denied ones of
// login per second on node i. It runs in a bubble of synctest.
func load(all ...*node) {
	for range 10 {
		for i, n := range all {
			n.count("api", "", 2, enforce.Admitted)
			n.count("login", "", i+1, enforce.Denied)
		}
		<-time.After(time.Second)
	}
}

// TestOverview checks the sums of two nodes, and what remains when one stops and when Redis does.
func TestOverview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := nodestest.New()
		one, two := start(t, r, "gw-1", live.Config{}), start(t, r, "gw-2", live.Config{})
		defer one.stop()
		defer two.stop()
		time.Sleep(3*time.Second + 300*time.Millisecond) // between the seconds
		is := func(step, want string) overview {
			t.Helper()
			synctest.Wait()
			var o overview
			if one.get(t, access.Read, "/v1/overview", &o); o.String() != want {
				t.Errorf("%s: %s, want %s", step, &o, want)
			}
			return o
		}
		is("no traffic", "admitted 0 denied 0; api 0/0 login 0/0; 2 of 2 nodes")
		load(one, two)
		load(one, two)
		o := is("two nodes", "admitted 4 denied 3; login 3/3 api 4/0; 2 of 2 nodes")
		if p := o.Policies[0]; p.DeniedShare != 1 || len(p.Trend) != 60 || p.Trend[55] == nil || *p.Trend[55] != 3 || p.Limits[0] != "5/m burst 5" {
			t.Errorf("row of login = %+v, want all denied and a trend", p)
		}
		if o.Latency.P99 < 0.5 || o.Latency.P99 > 2 || o.Problem != "" || o.Nodes[0].Problem != "" {
			t.Errorf("overview = %+v, want a p99 of 1 ms and no problem", o)
		}

		r.Fail(errors.New("connection refused"))
		load(one, two)
		load(one, two)
		if o := is("Redis unavailable", "admitted 2 denied 1; login 1/1 api 2/0; 1 of 1 nodes"); o.Problem == "" || !o.Nodes[0].Self {
			t.Errorf("overview = %+v, want this node and a problem", o)
		}
		r.Fail(nil)
		load(one, two)
		load(one, two)
		is("Redis available", "admitted 4 denied 3; login 3/3 api 4/0; 2 of 2 nodes")

		r.Fail(errors.New("connection refused"))
		two.stop() // cannot remove itself
		r.Fail(nil)
		time.Sleep(8 * time.Second)
		if o := is("a node gone", "admitted 1.6 denied 1.2; login 1.2/1.2 api 1.6/0; 1 of 2 nodes"); o.Nodes[0].Name != "gw-2" || !o.Nodes[0].Stale || o.Nodes[0].Problem == "" {
			t.Errorf("nodes = %+v, want the stale one first", o.Nodes)
		}
	})
}

// TestOverviewPrograms checks the decisions of Go programs, and which programs do not apply the
// adjustments of keys.
func TestOverviewPrograms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := []instances.PolicyRate{{Name: "login", Admitted: 3, Denied: 2, Shadow: 1}, {Name: "other", Admitted: 1}}
		n := start(t, nil, "gw-1", live.Config{Programs: func(context.Context) ([]live.Program, error) {
			return []live.Program{
				{ID: "A", Service: "shop", Host: "h", PID: 1, Version: 7, Policies: counts},
				{ID: "B", Service: "shop", Host: "h", PID: 2, Version: 7, Policies: counts, Adjusts: true},
				{ID: "C", Service: "own limits", Host: "h", PID: 3},
				{ID: "E", Service: instances.Nginx, Host: "h", PID: 4, Adjusts: true},
				{ID: "D", Service: "gone", Version: 7, Policies: counts, Stale: true},
			}, nil
		}})
		defer n.stop()
		time.Sleep(2 * time.Second)
		var o struct {
			Policies []struct {
				Name     string
				Programs map[string]float64
			}
		}
		n.get(t, access.Read, "/v1/overview", &o)
		if p := o.Policies[0]; p.Name != "login" || fmt.Sprint(p.Programs) != "map[denied:4 rate:12 shadow:2]" || o.Policies[1].Programs != nil {
			t.Errorf("policies %+v, want login first with the sum of both programs", o.Policies)
		}
		for nginx, want := range map[bool]string{false: "[shop (h:1)]", true: "[nginx (h:4) shop (h:1)]"} {
			if got := fmt.Sprint(n.NotAdjusting(t.Context(), nginx)); got != want {
				t.Errorf("NotAdjusting(%v) = %s, want %s", nginx, got, want)
			}
		}
	})
}

func TestSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, nil, "gw-1", live.Config{})
		defer n.stop()
		begin := time.Now().Unix()
		time.Sleep(300 * time.Millisecond)
		load(n)
		synctest.Wait()
		var s struct {
			Step    int
			From    int64
			Columns []string
			Rows    [][]*float64
		}
		if code := n.get(t, access.Read, fmt.Sprintf("/v1/series?since=%d", begin+2), &s); code != 200 || s.Step != 1 || s.From != begin+2 || len(s.Rows) != 8 || len(s.Columns) != 8 {
			t.Fatalf("GET /v1/series = %d %+v, want 8 rows from the third second", code, s)
		}
		if row := s.Rows[3]; len(row) != 8 || *row[0] != 2 || *row[1] != 1 || row[7] == nil {
			t.Errorf("row %v, want 2 admitted, 1 denied, and a p99", row)
		}
		if n.get(t, access.Read, "/v1/series?policy=login", &s); *s.Rows[len(s.Rows)-1][1] != 1 || s.Rows[len(s.Rows)-1][7] != nil {
			t.Errorf("last row of login %v, want 1 denied and no p99", s.Rows[len(s.Rows)-1])
		}
		for path, want := range map[string]int{"/v1/series?since=x": 400, "/v1/series?since=-1": 400, "/v1/series?policy=unknown": 404} {
			var p struct{ Field, Expected string }
			if code := n.get(t, access.Read, path, &p); code != want || p.Field == "" || p.Expected == "" {
				t.Errorf("GET %s = %d %+v, want %d with the field", path, code, p, want)
			}
		}
	})
}

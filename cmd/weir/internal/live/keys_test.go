package live_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/live"
	"github.com/floodweir/weir/cmd/weir/internal/nodes/nodestest"
	"github.com/floodweir/weir/cmd/weir/internal/traffic/keystats"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

// TestKeys checks the keys of two nodes together, that the role read gets no plain key, and that the
// stream has the same.
func TestKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := nodestest.New()
		one, two := start(t, r, "gw-1", live.Config{}), start(t, r, "gw-2", live.Config{})
		defer one.stop()
		defer two.stop()
		var k struct {
			Coverage float64
			Nodes    int `json:"nodes_live"`
			Total    int `json:"nodes_total"`
			Denied   []struct {
				ID           string
				Key          []string
				Count, Error uint64
			}
			Problem string
		}
		const key = "login|11:203.0.113.9" // as of policy.Charge
		traffic := func(seconds int) {
			for range seconds {
				one.count("login", key, 1, enforce.Denied)
				two.count("login", key, 2, enforce.Denied)
				<-time.After(time.Second)
			}
		}
		traffic(5)
		one.get(t, access.Operate, "/v1/policies/login/keys", &k) // begins the record
		traffic(20)
		one.get(t, access.Operate, "/v1/policies/login/keys", &k) // wants it again
		traffic(8)
		if one.get(t, access.Operate, "/v1/policies/login/keys", &k); k.Nodes != 2 || k.Total != 2 || len(k.Denied) != 1 || fmt.Sprint(k.Denied[0].Key) != "[203.0.113.9]" || k.Denied[0].Count < 60 || k.Problem != "" {
			t.Errorf("keys = %+v, want the denials of both nodes", k)
		}
		from, steps := one.History(t.Context(), "login", key)
		var sum keystats.Step
		for _, n := range steps {
			sum.Requests, sum.Denied = sum.Requests+n.Requests, sum.Denied+n.Denied
		}
		if now := time.Now().Unix(); from+int64(len(steps))*keystats.StepSeconds < now-5 || from > now-25 || sum.Requests < 60 || sum.Requests > 99 || sum.Denied != sum.Requests {
			t.Errorf("steps from %d = %v, want 60 to 99 requests of both nodes, all denied", from, steps)
		}
		for name, n := range map[string]*node{"one": one, "two": two} {
			if got, ok := n.Key(t.Context(), "login", k.Denied[0].ID); !ok || got != key || k.Denied[0].ID != n.names.ID(key) || n.names.ID(key) == policy.KeyID(key) {
				t.Errorf("node %s: Key(%s) = %q, %t, want the key, whose ID is the same on both nodes and no hash", name, k.Denied[0].ID, got, ok)
			}
			if got, ok := n.Key(t.Context(), "login", policy.KeyID(key)); ok {
				t.Errorf("node %s: Key of the hash = %q, want none", name, got)
			}
		}
		if _, steps := one.History(t.Context(), "login", key+"1"); steps != nil {
			t.Errorf("steps of another key = %v, want none", steps)
		}
		stream := one.connect(t, access.Read, "?topics=policy:login", nil)
		time.Sleep(6 * time.Second)
		text := stream.take()
		if strings.Contains(text, "203.0.113.9") || !strings.Contains(text, `"denied":[{"id":"`+k.Denied[0].ID) {
			t.Errorf("stream of the role read = %s, want the ID and no plain key", text)
		}
		k.Denied = nil
		if one.get(t, access.Read, "/v1/policies/login/keys", &k); len(k.Denied) != 1 || k.Denied[0].Key != nil || k.Denied[0].ID == "" {
			t.Errorf("keys for the role read = %+v, want the ID only", k)
		}
		stream.cancel()
		<-stream.done
		for path, want := range map[string]int{
			"/v1/policies/unknown/keys": 404, "/v1/policies/login/keys?n=0": 400, "/v1/policies/login/keys?n=101": 400,
			"/v1/policies/unknown/threshold?limit=1/s": 404, "/v1/policies/login/threshold": 400, "/v1/policies/login/threshold?limit=many": 400,
			"/v1/policies/login/threshold?limit=5+concurrent": 400,
		} {
			var p struct{ Field, Expected string }
			if code := one.get(t, access.Read, path, &p); code != want || p.Field == "" || p.Expected == "" {
				t.Errorf("GET %s = %d %+v, want %d with the field", path, code, p, want)
			}
		}
		traffic(60)
		var out json.RawMessage
		if code := one.get(t, access.Read, "/v1/policies/login/threshold?limit=12/m", &out); code != 200 || !strings.Contains(string(out), `"limit":"12/m burst 12"`) || !strings.Contains(string(out), `"now":{"keys":[`) {
			t.Errorf("threshold = %d %s", code, out)
		}
	})
}

package live_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/audit"
	"github.com/floodweir/weir/cmd/weir/internal/live"
	"github.com/floodweir/weir/enforce"
)

// TestAudit checks that entries follow in order, each once, without the key for the role read, and
// not before their result is known.
func TestAudit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, err := audit.New(audit.Config{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		add := func(actor string, ok *bool) audit.Entry {
			e, err := log.Append(t.Context(), audit.Entry{Actor: actor, Action: "block", Key: []string{"203.0.113.9"}, Reason: "attack of 203.0.113.9", OK: ok})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		notices := live.Audit(log)
		after := int64(-1)
		is := func(want string, operate bool) {
			t.Helper()
			all, err := notices(t.Context(), after)
			var text []string
			for _, n := range all {
				b, _ := json.Marshal(n.Data(operate))
				if strings.Contains(string(b), "attack of 203.0.113.9") != operate {
					t.Errorf("operate %t: %s", operate, b)
				}
				var e struct {
					Actor string
					Key   []string
				}
				json.Unmarshal(b, &e)
				text = append(text, strings.Join(append([]string{e.Actor}, e.Key...), " "))
				after = n.ID
			}
			if got := strings.Join(text, ", "); got != want || err != nil {
				t.Errorf("notices = %q, %v, want %q", got, err, want)
			}
		}
		add("old", audit.Yes())
		add("last", audit.Yes())
		is("last", false)
		is("", false)
		add("mei", audit.Yes())
		pending := add("ops", nil)
		add("late", audit.Yes())
		is("mei 203.0.113.9", true)
		is("", true)
		pending.OK = audit.No()
		if err := log.Finish(t.Context(), pending); err != nil {
			t.Fatal(err)
		}
		is("ops, late", false)
		add("lost", nil)
		is("", false)
		time.Sleep(time.Minute)
		is("lost", false)
	})
}

// TestReadSeesNoKey checks that the role read gets no plain key from any path or event, and that the
// role operate does where keys are shown.
func TestReadSeesNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, err := audit.New(audit.Config{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		n := start(t, nil, "gw-1", live.Config{Notices: live.Audit(log)})
		defer n.stop()
		const address = "203.0.113.9"
		traffic := func() {
			for range 10 {
				n.count("login", "login|11:"+address, 3, enforce.Denied)
				<-time.After(time.Second)
			}
		}
		body := func(role access.Role, path string) string {
			var v json.RawMessage
			n.get(t, role, path, &v)
			return string(v)
		}
		body(access.Read, "/v1/policies/login/keys") // begins the record
		traffic()
		streams := map[access.Role]*client{}
		for _, role := range []access.Role{access.Read, access.Operate} {
			streams[role] = n.connect(t, role, "?topics=overview,policy:login", nil)
		}
		traffic()
		if _, err := log.Append(t.Context(), audit.Entry{Actor: "mei", Action: "freeze", Policy: "login", Key: []string{address}, Reason: "attack by " + address,
			From: "blocked by ops: " + address, To: "frozen by mei: attack by " + address, Error: "not done for " + address, OK: audit.No()}); err != nil {
			t.Fatal(err)
		}
		traffic()
		got := map[access.Role]string{}
		for role, stream := range streams {
			got[role] = stream.take()
			stream.cancel()
			<-stream.done
		}
		for _, tc := range []struct {
			name, read, operate string
			plain               bool // for the role operate
		}{
			{"events", got[access.Read], got[access.Operate], true},
			{"keys", body(access.Read, "/v1/policies/login/keys"), body(access.Operate, "/v1/policies/login/keys"), true},
			{"threshold", body(access.Read, "/v1/policies/login/threshold?limit=1/m"), body(access.Operate, "/v1/policies/login/threshold?limit=1/m"), false},
			{"overview", body(access.Read, "/v1/overview"), body(access.Operate, "/v1/overview"), false},
			{"series", body(access.Read, "/v1/series?policy=login"), body(access.Operate, "/v1/series?policy=login"), false},
		} {
			if strings.Contains(tc.read, address) || strings.Contains(tc.operate, address) != tc.plain {
				t.Errorf("%s: read gets %s\noperate gets %s", tc.name, tc.read, tc.operate)
			}
		}
		for _, text := range []string{"attack by [key]", "event: top"} {
			if !strings.Contains(got[access.Read], text) {
				t.Errorf("events of the role read have no %q: %s", text, got[access.Read])
			}
		}
	})
}

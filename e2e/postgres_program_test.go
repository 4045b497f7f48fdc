//go:build unix && !onlyredis

package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/pgtest"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
)

// postgresGrants are the statements of docs/postgresql.md for the user weir.
var postgresGrants = []string{
	"GRANT SELECT, INSERT, UPDATE, DELETE ON weir_states, weir_shares TO weir",
	"GRANT SELECT ON weir_seed TO weir",
	"GRANT USAGE ON SEQUENCE weir_versions, weir_sweeps TO weir",
}

// postgresProgram returns the URL of a new database with the schema, of the user weir.
func postgresProgram(t *testing.T, server *pgtest.Server) string {
	t.Helper()
	db := server.NewDB(t)
	if out := migrates(t, "--store", server.DSN(db)); out != "schema migrated from version 0 to 2\n" {
		t.Errorf("weir migrate: %s", out)
	}
	server.Exec(t, db, append([]string{"DO $$ BEGIN CREATE ROLE weir LOGIN PASSWORD 'secret'; EXCEPTION WHEN duplicate_object THEN NULL; END $$"}, postgresGrants...)...)
	return "postgres://weir:secret@" + server.Addr + "/" + db
}

// migrates runs weir migrate and returns its output.
func migrates(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), programtest.Weir(t), append([]string{"migrate"}, args...)...).CombinedOutput()
	if err != nil {
		return string(out) + err.Error()
	}
	return string(out)
}

// passwords returns a setting by which all users but postgres need a password.
func passwords(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pghba")
	if err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o755)
	}
	file := filepath.Join(dir, "hba")
	if err == nil {
		err = os.WriteFile(file, []byte("host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return "hba_file=" + file
}

// TestPostgresStartup checks that weir exits with what to change if the configuration of PostgreSQL
// is wrong. A problem at run time fails /readyz until it is solved.
func TestPostgresStartup(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, passwords(t))
	good := postgresProgram(t, server)
	base, db := good[:strings.LastIndex(good, "/")], good[strings.LastIndex(good, "/")+1:]
	bare := server.NewDB(t)
	server.Exec(t, "postgres", "CREATE ROLE reader LOGIN PASSWORD 'secret'", "CREATE ROLE quiet LOGIN PASSWORD 'secret'", "ALTER ROLE quiet SET default_transaction_read_only = on")
	server.Exec(t, db, "GRANT SELECT ON weir_states, weir_shares, weir_seed TO reader")
	as := func(user string) string { return strings.Replace(good, "weir:secret", user, 1) }
	for store, want := range map[string]string{
		as("weir:wrong"):           `refuses the user weir: password authentication failed for user "weir" (28P01): correct the user and the password`,
		as("weir"):                 `refuses the user weir`,
		as("none:secret"):          `refuses the user none`,
		as("reader:secret"):        `the user reader lacks INSERT ON weir_states, UPDATE ON weir_states, DELETE ON weir_states, INSERT ON weir_shares`,
		as("quiet:secret"):         "transactions are read-only",
		base + "/none":             `database "none" does not exist (3D000): create the database`,
		base + "/" + bare:          "the database " + bare + " has no schema of this version in the search path of the user weir: run weir migrate",
		good + "?sslmode=require":  "the URL requires TLS, but PostgreSQL has none",
		good + "?no_parameter=yes": `unrecognized configuration parameter "no_parameter" (42704)`,
	} {
		out := exits(t, store, 1)
		if !strings.Contains(out, want) || strings.Contains(out, "secret@") || strings.Contains(out, "wrong@") || !strings.Contains(out, "--start-degraded") {
			t.Errorf("--store %s: it printed\n%swant %q, --start-degraded and no password", store, out, want)
		}
	}
	for _, args := range [][]string{
		{"serve", startupPolicies(t), "--store", good, "--policies", "store"},
		{"apply", startupPolicies(t), "--store", good},
		{"migrate", "--store", "redis://127.0.0.1"},
	} {
		out, err := exec.CommandContext(t.Context(), programtest.Weir(t), args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "want the") || strings.Contains(string(out), "secret") {
			t.Errorf("weir %v: %v\n%s", args, err, out)
		}
	}
	if out := migrates(t, "--store", server.DSN(db)); out != "the schema is up to date (version 2)\n" {
		t.Errorf("weir migrate again: %s", out)
	}
	if out := migrates(t, "--store", as("reader:secret")); !strings.Contains(out, "permission denied") {
		t.Errorf("weir migrate by a user who may not: %s", out)
	}
	server.Exec(t, bare, migrates(t, "--sql"))
	if out := migrates(t, "--store", server.DSN(bare)); out != "the schema is up to date (version 2)\n" {
		t.Errorf("weir migrate after --sql: %s", out)
	}

	password := filepath.Join(t.TempDir(), "password")
	writeFile(t, password, "secret\n")
	api := started(t, as("weir")+"?password_file="+password)
	awaitStatus(t, api+"/readyz", http.StatusOK)
	for _, step := range []struct {
		wrong, good func()
		want        string
	}{
		{func() { server.Exec(t, db, "REVOKE UPDATE ON weir_states FROM weir") },
			func() { server.Exec(t, db, "GRANT UPDATE ON weir_states TO weir") }, "lacks UPDATE ON weir_states"},
		{func() { server.Exec(t, db, "ALTER FUNCTION weir_decide RENAME TO other") },
			func() { server.Exec(t, db, "ALTER FUNCTION other RENAME TO weir_decide") }, "has no schema of this version"},
		{func() {
			server.Exec(t, db, "ALTER ROLE weir PASSWORD 'changed'", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'weir'")
		}, func() { writeFile(t, password, "changed\n") }, "28P01"},
	} {
		step.wrong()
		awaitText(t, api+"/readyz", step.want)
		awaitStatus(t, api+"/readyz", http.StatusServiceUnavailable)
		step.good()
		awaitStatus(t, api+"/readyz", http.StatusOK)
	}
	mustDecide(t, api)
}

// TestPostgresWaits starts weir before PostgreSQL, which then does not reply, and with
// --start-degraded.
func TestPostgresWaits(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	store := postgresProgram(t, server)
	server.Pause()
	resumed := make(chan struct{})
	go func() {
		defer close(resumed)
		<-time.After(3 * time.Second)
		server.Cont()
	}()
	awaitStatus(t, started(t, store)+"/readyz", http.StatusOK)
	<-resumed
	server.Stop()
	api := started(t, store, "--start-degraded", "true")
	awaitText(t, api+"/readyz", "connection refused")
	server.Start(t)
	awaitStatus(t, api+"/readyz", http.StatusOK)
	mustDecide(t, api)
}

const postgresFile = `
http: { trusted_proxies: [127.0.0.1] }
policies:
  - { name: closed, match: { paths: /closed }, key: const:all, limits: 2000/24h fixed_window, on_store_error: closed }
  - { name: local, match: { paths: /local }, key: const:all, limits: 1000/24h fixed_window }
failover: { nodes: 2 }
`

// TestPostgresServers runs two servers on PostgreSQL, which is killed under load and started again.
// Together they never admit more than the limit. Meanwhile each decides by the on_store_error of the
// policy.
func TestPostgresServers(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	store := postgresProgram(t, server)
	var nodes [2]*serving
	for i := range nodes {
		nodes[i] = serve(t, programtest.Weir(t), postgresFile, "--store", store, "--listen-gateway", "off", "--deadline", "1s", "--log-level", "error")
	}
	auth := func(n *serving, path string) (status int) {
		res := fetch(t, n.api+"/v1/auth", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", path, "X-Forwarded-For", "203.0.113.7")
		res.Body.Close()
		return res.StatusCode
	}
	var admitted, refused, lost atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				<-tick.C
				switch status := auth(nodes[i%2], "/closed"); {
				case status < 300:
					admitted.Add(1)
				case status == http.StatusTooManyRequests:
					refused.Add(1)
				default:
					lost.Add(1)
				}
			}
		})
	}
	await := func(what string, done func() bool) {
		t.Helper()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for range 6000 {
			if done() {
				return
			}
			<-tick.C
		}
		t.Fatalf("%s: %d admitted, %d refused, %d lost", what, admitted.Load(), refused.Load(), lost.Load())
	}
	await("load", func() bool { return admitted.Load() > 100 })
	server.Kill()
	await("errors", func() bool { return lost.Load() > 50 })
	for _, n := range nodes {
		awaitText(t, n.api+"/readyz", `"name":"store","ok":false`)
		awaitText(t, n.admin+"/metrics", `weir_store_state{state="down"} 1`)
	}
	for _, n := range nodes {
		if status := auth(n, "/local"); status >= 300 {
			t.Errorf("local without PostgreSQL = %d", status)
		}
	}
	before := admitted.Load()
	server.Start(t)
	await("recovery", func() bool { return admitted.Load() > before+100 })
	for _, n := range nodes {
		awaitStatus(t, n.api+"/readyz", http.StatusOK)
	}
	server.Pause()
	stalled := lost.Load()
	await("errors of a paused server", func() bool { return lost.Load() > stalled+20 })
	server.Cont()
	await("denials", func() bool { return refused.Load() > 200 })
	cancel()
	clients.Wait()
	if n := admitted.Load(); n > 2000 || n < 1000 {
		t.Errorf("%d admitted, want 1,000 to 2,000", n)
	}
	t.Logf("%d admitted of 2,000, %d refused, %d lost", admitted.Load(), refused.Load(), lost.Load())

	for action, want := range map[string]int{"freeze": http.StatusBadRequest, "block": http.StatusBadRequest, "credit": http.StatusOK, "reset": http.StatusOK} {
		body := fmt.Sprintf(`{"policy": "closed", "key": ["all"], "reason": "test"%s}`, map[string]string{"credit": `, "tokens": 5`, "block": `, "for": "1h"`}[action])
		if got := postKey(t, nodes[0].admin+"/v1/key/"+action, body, want); want != http.StatusOK && !strings.Contains(got, `"field":"store"`) {
			t.Errorf("%s: %s, want the field store", action, got)
		}
	}
	redistest.Await(t, "an admission by the other server after a reset", func() error { // it repeats denials for a moment
		if status := auth(nodes[1], "/closed"); status >= 300 {
			return fmt.Errorf("status %d", status)
		}
		return nil
	})
	awaitText(t, nodes[0].admin+"/v1/explain?url=/closed&client_ip=203.0.113.7", `"policy":"closed"`)
}

// TestPostgresShares runs TestSharedServers with PostgreSQL as store and ledger, and on_store_error: local.
func TestPostgresShares(t *testing.T) {
	server := pgtest.Start(t)
	testSharedServers(t, postgresProgram(t, server), server.Kill, "local")
}

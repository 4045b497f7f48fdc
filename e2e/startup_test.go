package e2e_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/porttest"
)

// startupFile has a policy that needs the store.
const startupFile = `
policies:
  - { name: p, key: [client.ip], limits: [1000000/s], on_store_error: closed }
`

func startupPolicies(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	writeFile(t, file, startupFile)
	return file
}

// writeFile replaces a file atomically.
func writeFile(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// startupLimit bounds the time in which weir exits: a connection with TLS to a port
// without TLS takes five seconds.
const startupLimit = time.Minute

// exits runs weir with a store until it exits with code, and returns its output.
func exits(t *testing.T, store string, code int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startupLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, programtest.Weir(t), "serve", startupPolicies(t), "--store", store, "--listen-http", "127.0.0.1:0",
		"--listen-gateway", "off", "--listen-grpc", "off", "--listen-resp", "off", "--listen-admin", "off").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != code {
		t.Errorf("weir serve --store %s: %v, want exit code %d; it printed\n%s", store, err, code, out)
	}
	return string(out)
}

// TestStartupProblems checks that weir exits with what to change if the configuration of
// Redis, or of the connection to it, is wrong, and that --start-degraded overrides it.
func TestStartupProblems(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := selfSigned(t, dir)
	tlsPort, mutualPort := porttest.Free(t), porttest.Free(t)
	secure := func(port int, clients string) string {
		return fmt.Sprintf("tls-port %d\ntls-cert-file %s\ntls-key-file %s\ntls-ca-cert-file %s\ntls-auth-clients %s", port, cert, key, cert, clients)
	}
	plain := redistest.Start(t, documentedACL(t, "weir:1:*"), secure(tlsPort, "no"))
	redistest.Start(t, secure(mutualPort, "yes"))
	guarded := redistest.Start(t, "requirepass hunter2")
	replica := redistest.Start(t, "replicaof "+strings.Replace(plain.Addr, ":", " ", 1))
	evicting := redistest.Start(t, "maxmemory 100mb\nmaxmemory-policy volatile-lru")
	cluster := redistest.StartCluster(t)
	for user, rules := range map[string][]any{
		"nohget": {"-hget", "-zadd"}, "noeval": {"-evalsha", "-eval"}, "noinfo": {"-info"}, "noping": {"-ping"},
		"nokeys": {"resetkeys", "~other:*"},
	} {
		plain.Do(t, append([]any{"ACL", "SETUSER", user, "on", ">pw", "~*", "+@all"}, rules...)...)
	}
	first, _, _ := strings.Cut(cluster.Addrs(), ",")
	for store, want := range map[string]string{
		"redis://:wrong@" + guarded.Addr:                            "refuses the password of the user default (WRONGPASS)",
		"redis://" + guarded.Addr:                                   "requires a password (NOAUTH)",
		"redis://nohget:pw@" + plain.Addr:                           "user nohget may not run HGET, ZADD: run ACL SETUSER nohget '~weir:1:*' +ping +info ",
		"redis://noeval:pw@" + plain.Addr:                           "user noeval may not run EVAL (NOPERM): run ACL SETUSER noeval ",
		"redis://noinfo:pw@" + plain.Addr:                           "user noinfo may not run INFO (NOPERM): run ACL SETUSER noinfo ",
		"redis://nokeys:pw@" + plain.Addr:                           "user nokeys may not use keys that begin with weir:1: (NOPERM): run ACL SETUSER nokeys '~weir:1:*'",
		"redis://weir:secret@" + plain.Addr + "/3":                  "user weir may not run SELECT (NOPERM): run ACL SETUSER weir '~weir:1:*'",
		"redis://" + plain.Addr + "/99":                             "database 99 does not exist",
		"redis://" + replica.Addr:                                   "is a replica of " + plain.Addr,
		"redis://" + evicting.Addr:                                  "maxmemory-policy is volatile-lru, want noeviction",
		"redis://" + first:                                          "use redis+cluster://",
		"rediss://" + plain.Addr:                                    "use redis:// in the URL",
		fmt.Sprint("redis://127.0.0.1:", tlsPort):                   "use rediss:// in the URL",
		fmt.Sprint("rediss://127.0.0.1:", tlsPort):                  "?ca=FILE",
		fmt.Sprint("rediss://localhost:", tlsPort, "?ca=", cert):    "certificate of Redis is for another name",
		fmt.Sprint("rediss://127.0.0.1:", mutualPort, "?ca=", cert): "?cert=FILE&key=FILE",
		"redis://weir@" + plain.Addr + "?password_file=" + dir:      "parameter password_file",
	} {
		t.Run(strings.ReplaceAll(store, "/", "_"), func(t *testing.T) {
			read, code := !strings.Contains(store, "password_file"), 1
			if !read {
				code = 2 // wrong usage
			}
			out := exits(t, store, code)
			if !strings.Contains(out, want) || strings.Contains(out, "hunter2") || strings.Contains(out, "pw@") {
				t.Errorf("--store %s: it printed\n%swant %q and no password", store, out, want)
			}
			if read && !strings.Contains(out, "--start-degraded") {
				t.Errorf("--store %s: it printed\n%swant --start-degraded", store, out)
			}
		})
	}
	for _, store := range []string{
		"redis://weir:secret@" + plain.Addr, "redis://noping:pw@" + plain.Addr,
		fmt.Sprint("rediss://127.0.0.1:", mutualPort, "?ca=", cert, "&cert=", cert, "&key=", key), "redis+cluster://" + cluster.Addrs(),
	} {
		started(t, store)
	}
	for store, ready := range map[string]int{"redis://" + evicting.Addr: 200, "redis://:wrong@" + guarded.Addr: 503} {
		api := started(t, store, "--start-degraded", "true")
		awaitText(t, api+"/readyz", `"name":"store_config","ok":false,"warn":true`)
		awaitStatus(t, api+"/readyz", ready) // 503: the policy is closed, and the store does not decide
	}
}

// started starts weir with a store and returns the URL of its API.
func started(t *testing.T, store string, args ...string) string {
	t.Helper()
	api := porttest.Address(t)
	startProcess(t, programtest.Weir(t), append([]string{"serve", startupPolicies(t), "--store", store, "--listen-http", api, "--listen-gateway", "off", "--deadline", "5s"}, args...)...)
	awaitStatus(t, "http://"+api+"/healthz", http.StatusOK)
	return "http://" + api
}

// TestStartupWaits starts weir before Redis: it waits with progress in the log, and does not
// listen meanwhile.
func TestStartupWaits(t *testing.T) {
	t.Parallel()
	port, api := porttest.Free(t), porttest.Address(t)
	var log output
	cmd := exec.Command(programtest.Weir(t), "serve", startupPolicies(t), "--store", fmt.Sprint("redis://127.0.0.1:", port), "--listen-http", api,
		"--listen-gateway", "off", "--listen-grpc", "off", "--listen-resp", "off", "--listen-admin", "off")
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(log.String(), "store unavailable: waiting") {
		<-tick.C
	}
	redis := exec.Command("redis-server", "--bind", "127.0.0.1", "--port", fmt.Sprint(port), "--save", "", "--dir", t.TempDir())
	if err := redis.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { redis.Process.Kill(); redis.Wait() })
	awaitStatus(t, "http://"+api+"/readyz", http.StatusOK)
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("weir after SIGTERM: %v", err)
	}
}

// TestStartupAtRunTime changes a Redis that weir uses: /readyz fails with the reason until it
// is solved.
func TestStartupAtRunTime(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	redis := redistest.Start(t, documentedACL(t, "weir:1:*"))
	password := filepath.Join(t.TempDir(), "password")
	writeFile(t, password, "secret\n")
	api := started(t, "redis://weir@"+redis.Addr+"?password_file="+password)
	awaitStatus(t, api+"/readyz", http.StatusOK)
	for _, step := range []struct {
		name        string
		wrong, good func()
		want        string
	}{
		{"eviction", func() { redis.Do(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru") },
			func() { redis.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction") }, "maxmemory-policy is allkeys-lru"},
		{"permission", func() { redis.Do(t, "ACL", "SETUSER", "weir", "-zadd") },
			func() { redis.Do(t, "ACL", "SETUSER", "weir", "+zadd") }, "may not run ZADD"},
		{"replica", func() { redis.Do(t, "REPLICAOF", "127.0.0.1", strings.TrimPrefix(primary.Addr, "127.0.0.1:")) },
			func() { redis.Do(t, "REPLICAOF", "NO", "ONE") }, "is a replica of"},
		{"password", func() {
			redis.Do(t, "ACL", "SETUSER", "weir", "resetpass", ">changed")
			redis.Do(t, "CLIENT", "KILL", "USER", "weir")
		}, func() { writeFile(t, password, "changed\n") }, "WRONGPASS"},
	} {
		step.wrong()
		awaitText(t, api+"/readyz", step.want)
		awaitStatus(t, api+"/readyz", http.StatusServiceUnavailable)
		awaitStatus(t, api+"/healthz", http.StatusOK)
		step.good()
		awaitStatus(t, api+"/readyz", http.StatusOK)
		if t.Failed() {
			t.Fatalf("step %s", step.name)
		}
	}
	mustDecide(t, api)
}

func mustDecide(t *testing.T, api string) {
	t.Helper()
	if status, _, body := post(t, api+"/v1/take", `{"key": "k", "limit": "1000/s"}`); status != 200 || bytes.Contains(body, []byte("degraded")) {
		t.Errorf("take = %d %s, want a decision of the store", status, body)
	}
}

// TestStartupRotation changes the password and the certificates of a connection with TLS
// while clients send requests, by the files and by SIGHUP. Redis decides every request.
func TestStartupRotation(t *testing.T) {
	t.Parallel()
	dir, newer := t.TempDir(), t.TempDir()
	cert, key := selfSigned(t, dir)
	port := porttest.Free(t)
	redis := redistest.Start(t, documentedACL(t, "weir:1:*"),
		fmt.Sprintf("tls-port %d\ntls-cert-file %s\ntls-key-file %s\ntls-ca-cert-file %s\ntls-auth-clients yes", port, cert, key, cert))
	files := t.TempDir()
	password, ca := filepath.Join(files, "password"), filepath.Join(files, "ca.pem")
	writeFile(t, password, "secret")
	for name, from := range map[string]string{"ca.pem": cert, "cert.pem": cert, "key.pem": key} {
		copyFile(t, filepath.Join(files, name), from)
	}
	store := fmt.Sprintf("rediss://weir@127.0.0.1:%d?password_file=%s&ca=%s&cert=%s/cert.pem&key=%[4]s/key.pem", port, password, ca, files)
	s := serve(t, programtest.Weir(t), "failover: {deadline: 2s}\n"+startupFile, "--store", store, "--listen-gateway", "off")

	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var decided atomic.Int64
	for i := range 8 {
		clients.Go(func() {
			for tick := time.NewTicker(40 * time.Millisecond); ctx.Err() == nil; <-tick.C {
				status, _, body := post(t, s.api+"/v1/take", fmt.Sprintf(`{"key": "k%d", "limit": "1000000/s"}`, i))
				if status != 200 || !bytes.Contains(body, []byte(`"ok":true`)) || bytes.Contains(body, []byte("degraded")) {
					t.Errorf("take = %d %s", status, body)
					return
				}
				decided.Add(1)
			}
		})
	}
	// sessions returns the IDs of the connections of weir.
	sessions := func() string {
		var ids []string
		list := string(redis.Do(t, "CLIENT", "LIST").(string))
		for line := range strings.Lines(list) {
			if strings.Contains(line, " user=weir ") {
				id, _, _ := strings.Cut(line, " ")
				ids = append(ids, id)
			}
		}
		return strings.Join(ids, ",")
	}
	replaced := func(before string) bool {
		now := sessions()
		for id := range strings.SplitSeq(before, ",") {
			if strings.Contains(now+",", id+",") {
				return false
			}
		}
		return now != ""
	}
	await := func(what, before string) {
		t.Helper()
		tick, limit := time.NewTicker(50*time.Millisecond), time.After(30*time.Second)
		defer tick.Stop()
		for !replaced(before) {
			select {
			case <-tick.C:
			case <-limit:
				t.Fatalf("%s: weir still uses the connections %s", what, before)
			}
		}
	}

	before := sessions()
	redis.Do(t, "ACL", "SETUSER", "weir", ">second") // both are valid for a while
	writeFile(t, password, "second")
	await("password", before)
	redis.Do(t, "ACL", "SETUSER", "weir", "<secret")

	before = sessions()
	newCert, newKey := selfSigned(t, newer)
	both, err := os.ReadFile(newCert)
	if err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	trustedBoth := filepath.Join(dir, "both.pem") // Redis reads a file again only under another name
	writeFile(t, trustedBoth, string(old)+string(both))
	redis.Do(t, "CONFIG", "SET", "tls-ca-cert-file", trustedBoth)
	writeFile(t, filepath.Join(files, "key.pem"), "broken") // logged; the connection stays
	if err := s.process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	copyFile(t, filepath.Join(files, "key.pem"), newKey)
	copyFile(t, filepath.Join(files, "cert.pem"), newCert)
	if err := s.process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await("certificate", before)
	stop()
	clients.Wait()
	if decided.Load() < 100 {
		t.Errorf("%d decisions, want many", decided.Load())
	}
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, to, string(text))
}

// TestAPICertificates checks the HTTP API with TLS and client certificates.
func TestAPICertificates(t *testing.T) {
	t.Parallel()
	cert, key := selfSigned(t, t.TempDir())
	strange, strangeKey := selfSigned(t, t.TempDir())
	api := porttest.Address(t)
	startProcess(t, programtest.Weir(t), "serve", startupPolicies(t), "--listen-http", api, "--listen-gateway", "off",
		"--http-tls-cert", cert, "--http-tls-key", key, "--http-client-ca", cert)
	pem, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	take := func(files ...string) (int, error) {
		c := &tls.Config{RootCAs: roots}
		if len(files) > 0 {
			pair, err := tls.LoadX509KeyPair(files[0], files[1])
			if err != nil {
				t.Fatal(err)
			}
			c.Certificates = []tls.Certificate{pair}
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}}
		res, err := client.Post("https://"+api+"/v1/take", "", strings.NewReader(`{"key":"k","limit":"100/h"}`))
		if err != nil {
			return 0, err
		}
		res.Body.Close()
		return res.StatusCode, nil
	}
	tick, limit := time.NewTicker(20*time.Millisecond), time.After(30*time.Second)
	defer tick.Stop()
	for {
		status, err := take(cert, key)
		if status == 200 {
			break
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("take with a certificate = %d, %v", status, err)
		}
	}
	if status, err := take(); err == nil {
		t.Errorf("take without a certificate = %d, want no connection", status)
	}
	if status, err := take(strange, strangeKey); err == nil {
		t.Errorf("take with the certificate of another authority = %d, want no connection", status)
	}
	if res, err := http.Get("http://" + api + "/healthz"); err == nil && res.StatusCode == 200 {
		t.Error("the listener with TLS serves plain text")
	}
}

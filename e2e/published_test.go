package e2e_test

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
)

// TestPublishedInTrouble checks that nodes follow the published policies in three cases. Their
// own file is broken; they cannot read the newest version; or Redis lost its data and counts
// versions from 1 again.
func TestPublishedInTrouble(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	store := "redis://" + redis.Addr
	binary := programtest.Weir(t)
	file := "gateway: { routes: [{ path: /, upstream: 'http://127.0.0.1:1' }] }\n" +
		"policies: [{ name: p, key: client.ip, limits: 1/h }]\n"
	node := func() *serving { return serve(t, binary, file, "--store", store, "--policies", "store") }
	publish := func(limit string) {
		t.Helper()
		cmd := exec.Command(binary, "apply", "-")
		cmd.Env = append(os.Environ(), "WEIR_STORE="+store)
		cmd.Stdin = strings.NewReader("policies: [{ name: p, key: client.ip, limits: " + limit + " }]\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("apply = %v: %s", err, out)
		}
	}
	has := func(n *serving, limit string) {
		t.Helper()
		awaitText(t, n.admin+"/v1/policies", `"`+limit+`"`)
	}
	one, two := node(), node()

	one.write(t, "polices: []\n")
	awaitText(t, one.api+"/readyz", "last reload failed")
	publish("2/h burst 2")
	has(one, "2/h burst 2")
	has(two, "2/h burst 2")
	one.write(t, file)
	has(one, "2/h burst 2")

	redis.Do(t, "HSET", "weir:1:policies", "version", "2", "v:2", `{"text":"policies: nonsense"}`)
	late := node()
	has(late, "2/h burst 2")
	awaitText(t, late.api+"/readyz", "last reload failed")

	publish("3/h burst 3")
	has(late, "3/h burst 3")
	redis.Do(t, "FLUSHALL")
	for _, limit := range []string{"4/h burst 4", "5/h burst 5"} {
		redis.Do(t, "FLUSHALL")
		publish(limit) // as version 1
		for _, n := range []*serving{one, two, late} {
			has(n, limit)
			awaitStatus(t, n.api+"/readyz", http.StatusOK)
		}
	}
}

// TestRollbackToNothing checks the error when there is no earlier version.
func TestRollbackToNothing(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	binary := programtest.Weir(t)
	fails := func(want string) {
		t.Helper()
		out, err := exec.Command(binary, "rollback", "--store", "redis://"+redis.Addr).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("rollback = %v: %s, want %q", err, out, want)
		}
	}
	fails("no policies published yet")
	cmd := exec.Command(binary, "apply", "-", "--store", "redis://"+redis.Addr)
	cmd.Stdin = strings.NewReader("policies: [{ name: p, key: client.ip, limits: 1/h }]\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("apply = %v: %s", err, out)
	}
	fails("there is none before it")
}

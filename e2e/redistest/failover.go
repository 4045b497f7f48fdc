package redistest

import (
	"fmt"
	"net"
	"testing"
)

// A Failover is a primary and a replica behind a sentinel. The sentinel promotes the replica
// shortly after the primary has stopped.
type Failover struct {
	Primary, Replica, Sentinel *Server

	link *Proxy // from the replica to the primary
}

// StartFailover runs the three until the test ends. name is the sentinel's name for the
// primary; directives configure the primary.
func StartFailover(t testing.TB, name string, directives ...string) *Failover {
	t.Helper()
	f := &Failover{Primary: Start(t, append(directives, "repl-diskless-sync-delay 0")...)}
	f.link = StartProxy(t, f.Primary.Addr)
	host, port, err := net.SplitHostPort(f.link.Addr)
	if err != nil {
		t.Fatal(err)
	}
	f.Replica = Start(t, "replicaof "+host+" "+port)
	Await(t, "the replica follows", func() error { return replicates(t, f.Replica) })
	f.Sentinel = StartSentinel(t, name, f.Primary)
	f.Sentinel.Do(t, "SENTINEL", "SET", name, "down-after-milliseconds", 300)
	f.Sentinel.Do(t, "SENTINEL", "SET", name, "failover-timeout", 3000)
	Await(t, "the sentinel knows the replica", func() error {
		replicas := f.Sentinel.Do(t, "SENTINEL", "REPLICAS", name)
		if all, ok := replicas.([]any); !ok || len(all) != 1 {
			return fmt.Errorf("replicas %v", replicas)
		}
		return has(replicas, "master-link-status ok")
	})
	f.replicated(t)
	return f
}

// Cut stops replication: the replica gets no more writes, and the primary no more
// acknowledgements. Writes before the call are replicated.
func (f *Failover) Cut(t testing.TB) {
	t.Helper()
	f.replicated(t)
	f.link.Set(DropAll)
}

// replicated waits until the replica has acknowledged all writes so far. A primary sends a new
// replica no writes before its first acknowledgement, which can take a second.
func (f *Failover) replicated(t testing.TB) {
	t.Helper()
	c, err := Dial(f.Primary.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// WAIT waits for the last write of its connection.
	if _, err := c.Do("SET", "replicated", 1, "PX", 1); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Do("WAIT", 1, 10000); err != nil || n != int64(1) {
		t.Fatalf("WAIT = %v, %v, want 1 replica", n, err)
	}
}

// Stop stops all three at once.
func (f *Failover) Stop() {
	f.Primary.Stop()
	f.Replica.Stop()
	f.Sentinel.Stop()
}

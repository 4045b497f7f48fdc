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
// primary.
func StartFailover(t testing.TB, name string) *Failover {
	t.Helper()
	f := &Failover{Primary: Start(t, "repl-diskless-sync-delay 0")}
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
	return f
}

// Cut stops replication: the replica gets no more writes.
func (f *Failover) Cut() { f.link.Set(DropReplies) }

// Stop stops all three at once.
func (f *Failover) Stop() {
	f.Primary.Stop()
	f.Replica.Stop()
	f.Sentinel.Stop()
}

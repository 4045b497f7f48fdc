package redistest

import (
	"fmt"
	"net"
	"testing"
)

// A Failover is a primary and a replica behind a sentinel, which makes the replica the primary
// a moment after the primary has ended.
type Failover struct {
	Primary, Replica, Sentinel *Server

	link *Proxy // from the replica to the primary
}

// StartFailover runs the three until the test ends. The sentinel has a name for them.
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

// Cut keeps from the replica what is written from now on.
func (f *Failover) Cut() { f.link.Set(DropReplies) }

// Stop ends all three at once.
func (f *Failover) Stop() {
	f.Primary.Stop()
	f.Replica.Stop()
	f.Sentinel.Stop()
}

package redistest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/internal/porttest"
)

// ClusterServers is a running Redis Cluster of three primaries, each with a replica.
type ClusterServers struct {
	Primaries [3]*Server
	Replicas  [3]*Server
}

const slots = 16384

// StartCluster runs six redis-servers as a cluster. They stop with the test, which fails if
// redis-server is not installed.
func StartCluster(t testing.TB, directives ...string) *ClusterServers {
	t.Helper()
	c := &ClusterServers{}
	// A starting node waits for a node timeout before it serves, so the timeout is short
	// at first and long afterwards, for a busy machine. Meanwhile no replica takes over.
	directives = append([]string{"cluster-enabled yes", "cluster-node-timeout 600", "cluster-replica-no-failover yes", "repl-diskless-sync-delay 0"}, directives...)
	for _, list := range [][]*Server{c.Primaries[:], c.Replicas[:]} {
		for i := range list {
			s, err := start(t, porttest.Free(t), directives)
			if err != nil {
				t.Fatal(err)
			}
			list[i] = s
		}
	}
	all := append(c.Primaries[:], c.Replicas[:]...)
	for i, s := range c.Primaries {
		args := []any{"CLUSTER", "ADDSLOTS"}
		for slot := i * slots / 3; slot < (i+1)*slots/3; slot++ {
			args = append(args, slot)
		}
		s.Do(t, args...)
		s.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	for _, s := range all { // all pairs, to not wait for gossip
		for _, other := range all {
			if other != s {
				s.Do(t, "CLUSTER", "MEET", "127.0.0.1", other.port)
			}
		}
	}
	Await(t, "every node knows six", func() error { return each(t, all, knowsSix) })
	for i, s := range c.Replicas {
		s.Do(t, "CLUSTER", "REPLICATE", c.Primaries[i].Do(t, "CLUSTER", "MYID"))
	}
	Await(t, "the cluster is whole", func() error {
		if err := each(t, c.Replicas[:], replicates); err != nil {
			return err
		}
		return each(t, all, whole)
	})
	for _, s := range all {
		s.Do(t, "CONFIG", "SET", "cluster-node-timeout", 15000)
		s.Do(t, "CONFIG", "SET", "cluster-replica-no-failover", "no")
	}
	return c
}

func each(t testing.TB, servers []*Server, f func(testing.TB, *Server) error) error {
	t.Helper()
	for _, s := range servers {
		if err := f(t, s); err != nil {
			return fmt.Errorf("%s: %w", s.Addr, err)
		}
	}
	return nil
}

func knowsSix(t testing.TB, s *Server) error {
	t.Helper()
	nodes := fmt.Sprint(s.Do(t, "CLUSTER", "NODES"))
	if n := strings.Count(nodes, " connected"); n != 6 || strings.Contains(nodes, "handshake") {
		return fmt.Errorf("want 6 nodes:\n%s", nodes)
	}
	return nil
}

func replicates(t testing.TB, s *Server) error {
	t.Helper()
	return has(s.Do(t, "INFO", "replication"), "master_link_status:up")
}

func whole(t testing.TB, s *Server) error {
	t.Helper()
	if err := has(s.Do(t, "CLUSTER", "INFO"), "cluster_state:ok"); err != nil {
		return err
	}
	if n := strings.Count(fmt.Sprint(s.Do(t, "CLUSTER", "NODES")), "slave"); n != 3 {
		return fmt.Errorf("knows %d replicas, want 3", n)
	}
	return nil
}

func has(info any, want string) error {
	if text := fmt.Sprint(info); !strings.Contains(text, want) {
		return fmt.Errorf("want %s in:\n%s", want, text)
	}
	return nil
}

// Addrs returns the addresses of the primaries, separated by commas.
func (c *ClusterServers) Addrs() string {
	var all []string
	for _, s := range c.Primaries {
		all = append(all, s.Addr)
	}
	return strings.Join(all, ",")
}

// Await calls f until it returns no error, for at most two minutes: a busy machine is slow.
func Await(t testing.TB, what string, f func() error) {
	t.Helper()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("redistest: not within 2m: %s: %v", what, err)
		}
	}
}

// Move moves a slot, key by key, as redis-cli --cluster reshard does.
func (c *ClusterServers) Move(t testing.TB, slot int64, from, to *Server) {
	t.Helper()
	fromID, toID := from.Do(t, "CLUSTER", "MYID"), to.Do(t, "CLUSTER", "MYID")
	to.Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	from.Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	for {
		keys := from.Do(t, "CLUSTER", "GETKEYSINSLOT", slot, 100).([]any)
		if len(keys) == 0 {
			break
		}
		for _, k := range keys { // one by one, so that the keys of one call are separated for a while
			from.Do(t, "MIGRATE", "127.0.0.1", to.port, k, 0, 5000)
		}
	}
	to.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	from.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	for _, p := range c.Primaries {
		p.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
}

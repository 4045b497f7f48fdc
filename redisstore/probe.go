package redisstore

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir"
)

// A ServerInfo describes a server to [Store.Probe]'s caller.
type ServerInfo struct {
	Server  string // "redis" or "valkey"; empty if INFO failed
	Version string // such as "7.0.15"

	// Empty if the server does not report it:
	Mode      string // "standalone", "cluster" or "sentinel"
	ReplicaOf string // host:port of the primary of a replica
	Eviction  string // maxmemory-policy

	// Warnings describe settings that weaken limits and how to fix them, one sentence
	// each.
	Warnings []string

	limited bool          // maxmemory is set
	clock   time.Duration // the server's clock minus this process's, to within a round trip
}

// Probe checks that the server, or one node of a cluster, can store limits. It must be Redis
// 6.2 or later, or Valkey, without eviction, and scripts must be able to read the time. An
// error wraps weir.ErrUnavailable: the server does not reply or cannot be used. Settings
// that work but weaken limits are Warnings. With an error of a later check, the ServerInfo has
// the reply to INFO. Probe writes nothing.
func (s *Store) Probe(ctx context.Context) (ServerInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	cmds := []Command{{Head: []string{"INFO", "server"}}, {Head: []string{"INFO", "memory"}}, {Head: []string{"INFO", "replication"}}}
	replies := make([]Reply, len(cmds))
	s.conn.Do(ctx, cmds, replies)
	info := ""
	for i, r := range replies {
		if r.Err != nil {
			return ServerInfo{}, unavailable(fmt.Errorf("%s: %w", strings.Join(cmds[i].Head, " "), r.Err))
		}
		info += strings.Join(r.Items, "") + "\r\n"
	}
	f := ServerInfo{Server: "redis"}
	f.read(info)
	if s.config.Clock == nil {
		if err := s.probeTime(ctx, &f); err != nil {
			return f, err
		}
	}
	return f, f.check()
}

// probeTime runs the script for a Peek at a key of its own.
func (s *Store) probeTime(ctx context.Context, f *ServerInfo) error {
	o := &op{mode: dryRun}
	o.one[0] = weir.Request{Verb: weir.Peek, Key: "probe", Limit: weir.MustLimit("1/s")}
	o.rs, o.ds = o.one[:], o.oneD[:]
	before := time.Now()
	if err := s.queue.Do(ctx, o); err != nil {
		return err
	}
	after := time.Now()
	if o.Err != nil {
		return fmt.Errorf("redisstore: probe: cannot run the script; a server that refuses TIME in scripts needs Config.Clock: %w", o.Err)
	}
	f.clock = o.ds[0].At.Sub(before.Add(after.Sub(before) / 2)).Round(time.Millisecond)
	return nil
}

// read parses the reply to INFO.
func (f *ServerInfo) read(info string) {
	var replica bool
	var host, port string // of the primary
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "redis_version":
			if f.Server == "redis" {
				f.Version = value
			}
		case "server_name":
			f.Server = value
		case "valkey_version":
			f.Server, f.Version = "valkey", value
		case "maxmemory_policy":
			f.Eviction = value
		case "maxmemory":
			f.limited = value != "0"
		case "redis_mode":
			f.Mode = value
		case "role":
			replica = value == "slave"
		case "master_host":
			host = value
		case "master_port":
			port = value
		}
	}
	if replica {
		f.ReplicaOf = net.JoinHostPort(host, port)
	}
}

// check adds the warnings, and returns an error for a server that cannot be used.
func (f *ServerInfo) check() error {
	if f.Server == "redis" && !atLeast(f.Version, 6, 2) {
		return unavailable(fmt.Errorf("redis %q: want 6.2 or later, or Valkey", f.Version))
	}
	if f.Eviction != "noeviction" && f.Eviction != "" {
		how := "once maxmemory is set"
		if f.limited {
			how = "when memory is full"
		}
		f.Warnings = append(f.Warnings, fmt.Sprintf("maxmemory-policy is %s: %s Redis evicts keys in use, which resets their limits; set it to noeviction.", f.Eviction, how))
	}
	if f.clock > time.Second || f.clock < -time.Second {
		f.Warnings = append(f.Warnings, fmt.Sprintf("The clocks of Redis and of this process differ by %v: limits follow the clock of Redis, but Decision.At and calendar windows are off; synchronize them.", f.clock))
	}
	return nil
}

func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, errA := strconv.Atoi(parts[0])
	b, errB := strconv.Atoi(parts[1])
	return errA == nil && errB == nil && (a > major || a == major && b >= minor)
}

package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir"
)

// Findings are what [Store.Probe] found out about a server.
type Findings struct {
	Server  string // "redis" or "valkey"
	Version string // as the server names it, "7.0.15"
	Policy  string // maxmemory-policy
	Limited bool   // maxmemory is set

	// Clock is the server's minus this process's, to within a round trip.
	Clock time.Duration

	// Warnings say what will go wrong, and what to do: one sentence each. None if
	// all is well.
	Warnings []string
}

// Probe asks the server, one node of a cluster, whether it is fit to keep limits:
// Redis 6.2 or later, or Valkey; a memory policy that evicts nothing; scripts that
// may read the time. It returns an error that wraps weir.ErrUnavailable if it
// gets no answer or the server cannot be used at all, and warnings for what works
// but not well. It changes nothing.
func (s *Store) Probe(ctx context.Context) (Findings, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	f := Findings{Server: "redis"}
	cmds := []Command{{Head: []string{"INFO", "server"}}, {Head: []string{"INFO", "memory"}}}
	replies := make([]Reply, len(cmds))
	s.conn.Do(ctx, cmds, replies)
	info := ""
	for i, r := range replies {
		if r.Err != nil {
			return f, unavailable(fmt.Errorf("%s: %w", strings.Join(cmds[i].Head, " "), r.Err))
		}
		info += strings.Join(r.Items, "") + "\r\n"
	}
	f.read(info)
	if s.config.Clock == nil {
		if err := s.probeTime(ctx, &f); err != nil {
			return f, err
		}
	}
	return f, f.judge()
}

// probeTime runs the script over a request on no key that anybody uses.
func (s *Store) probeTime(ctx context.Context, f *Findings) error {
	o := &op{mode: dryRun}
	o.one[0] = weir.Request{Verb: weir.Peek, Key: "probe", Limit: weir.MustLimit("1/s")}
	o.rs, o.ds = o.one[:], o.oneD[:]
	before := time.Now()
	if err := s.ask(ctx, o); err != nil {
		return err
	}
	after := time.Now()
	if o.err != nil {
		return fmt.Errorf("redisstore: probe: the script does not run; a server that refuses TIME in scripts needs Config.Clock: %w", o.err)
	}
	f.Clock = o.ds[0].At.Sub(before.Add(after.Sub(before) / 2)).Round(time.Millisecond)
	return nil
}

// read takes what INFO says.
func (f *Findings) read(info string) {
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
			f.Policy = value
		case "maxmemory":
			f.Limited = value != "0"
		}
	}
}

// judge adds the warnings that follow from what was found.
func (f *Findings) judge() error {
	if f.Server == "redis" && !atLeast(f.Version, 6, 2) {
		return unavailable(fmt.Errorf("redis %q: want 6.2 or later, or Valkey", f.Version))
	}
	if f.Policy != "noeviction" && f.Policy != "" {
		how := "once maxmemory is set"
		if f.Limited {
			how = "when memory is full"
		}
		f.Warnings = append(f.Warnings, fmt.Sprintf("maxmemory-policy is %s: %s Redis forgets keys that owe, and their limits start afresh; set it to noeviction.", f.Policy, how))
	}
	if f.Clock > time.Second || f.Clock < -time.Second {
		f.Warnings = append(f.Warnings, fmt.Sprintf("The clock of Redis differs from this process's by %v: Redis' decides, but Decision.At and the bounds of calendars are off.", f.Clock))
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

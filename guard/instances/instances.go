// Package instances publishes in Redis which functions each process limits, so that one list
// shows the live limits of all processes.
//
//	p := instances.Publisher{Conn: conn, Registry: guard.Default(), Service: "shop"}
//	go p.Run(ctx)
//
// The admin listener of weir lists them at /v1/functions, and [Read] returns them to a program.
//
// The list is for operators: it has the names, limits, counters and source positions of guards. A
// process that ends is removed after [TTL].
package instances

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/redisstore"
)

const (
	// TTL is the time that a process stays listed after its last update.
	TTL = 30 * time.Second

	// DefaultEvery is the default interval between updates.
	DefaultEvery = 10 * time.Second

	// MaxProcesses bounds the list; one more process is refused.
	MaxProcesses = 1000

	// MaxSize is the largest JSON of a process, in bytes.
	MaxSize = 1 << 20

	// In a cluster the keys share a slot.
	index  = "weir:1:{functions}"
	prefix = index + ":"
)

// A Process describes one process.
type Process struct {
	Service string    `json:"service"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Since   time.Time `json:"since"` // its first update, by its clock

	// Functions is its list of guards, in the form of guard.Registry.ServeHTTP.
	Functions json.RawMessage `json:"functions"`
}

// A Publisher publishes the guards of a process. Conn, Registry and Service are required.
type Publisher struct {
	Conn     redisstore.Conn
	Registry *guard.Registry

	// Service is the name of the program, 1 to 64 bytes.
	Service string

	// Every is the interval between updates; DefaultEvery if zero, at most half of TTL.
	Every time.Duration

	// OnError, if not nil, is called with the error of a failed update, once for each
	// different error, and with nil when an update succeeds again. Updates go on.
	OnError func(error)
}

// update puts a process on the list, or keeps it there.
//
// KEYS[1] the index, by the second of the last update; KEYS[2] the record of the process.
// ARGV[1] its id; ARGV[2] the record; ARGV[3] the TTL of a record in seconds; ARGV[4] the
// maximum length of the list. Returns 1, or 0 if the list is full.
const update = `
local now = tonumber(redis.call('TIME')[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[3])
redis.call('ZREM', KEYS[1], ARGV[1])
if redis.call('ZCOUNT', KEYS[1], '-inf', '+inf') >= tonumber(ARGV[4]) then
  return 0
end
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3] * 1000)
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3])
return 1
`

// Run updates the list at once and at intervals until ctx is done. Then it removes the process
// from the list. It returns the cause of ctx's end, or an error about an invalid field of p.
func (p *Publisher) Run(ctx context.Context) error {
	every := p.Every
	if every == 0 {
		every = DefaultEvery
	}
	switch {
	case p.Conn == nil || p.Registry == nil:
		return fmt.Errorf("instances: %w: got nil Conn or Registry, want both", weir.ErrInvalid)
	case p.Service == "" || len(p.Service) > 64:
		return fmt.Errorf("instances: service %.80q: %w: want 1 to 64 bytes", p.Service, weir.ErrInvalid)
	case every < 0 || every > TTL/2:
		return fmt.Errorf("instances: every %v: %w: want at most %v", every, weir.ErrInvalid, TTL/2)
	}
	host, _ := os.Hostname()
	me := Process{Service: p.Service, Host: host, PID: os.Getpid(), Since: time.Now().UTC().Truncate(time.Second)}
	id, last := rand.Text(), ""
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := p.update(ctx, id, me)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if p.OnError != nil && text != last && ctx.Err() == nil {
			p.OnError(err)
		}
		last = text
		select {
		case <-tick.C:
		case <-ctx.Done():
			p.leave(ctx, id)
			return context.Cause(ctx)
		}
	}
}

func (p *Publisher) update(ctx context.Context, id string, me Process) error {
	live, err := json.Marshal(p.Registry.Live())
	if err != nil {
		return fmt.Errorf("instances: %w", err)
	}
	me.Functions = live
	record, err := json.Marshal(me)
	if err != nil {
		return fmt.Errorf("instances: %w", err)
	}
	if len(record) > MaxSize {
		return fmt.Errorf("instances: %d bytes: %w: want at most %d", len(record), weir.ErrInvalid, MaxSize)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	items, err := ask(ctx, p.Conn, redisstore.Command{
		Head: []string{"EVAL", update, "2"}, Keys: []string{index, prefix + id},
		Args: []string{id, string(record), strconv.Itoa(int(TTL / time.Second)), strconv.Itoa(MaxProcesses)},
	})
	if err != nil {
		return err
	}
	if len(items) != 1 || items[0] != "1" {
		return fmt.Errorf("instances: list full: got %d processes already", MaxProcesses)
	}
	return nil
}

// leave removes the process from the list. If that fails, it is removed after TTL.
func (p *Publisher) leave(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	cmds := []redisstore.Command{
		{Head: []string{"ZREM"}, Keys: []string{index}, Args: []string{id}},
		{Head: []string{"DEL"}, Keys: []string{prefix + id}},
	}
	p.Conn.Do(ctx, cmds, make([]redisstore.Reply, len(cmds)))
}

// Read returns the listed processes, in the order of their last updates. Unreadable records are
// left out.
func Read(ctx context.Context, conn redisstore.Conn) ([]Process, error) {
	ids, err := ask(ctx, conn, redisstore.Command{Head: []string{"ZRANGE"}, Keys: []string{index}, Args: []string{"0", strconv.Itoa(MaxProcesses - 1)}})
	if err != nil {
		return nil, err
	}
	cmds, replies := make([]redisstore.Command, len(ids)), make([]redisstore.Reply, len(ids))
	for i, id := range ids {
		cmds[i] = redisstore.Command{Head: []string{"GET"}, Keys: []string{prefix + id}}
	}
	conn.Do(ctx, cmds, replies)
	var all []Process
	for _, r := range replies {
		var p Process
		if r.Err == nil && len(r.Items) == 1 && json.Unmarshal([]byte(r.Items[0]), &p) == nil && p.Service != "" {
			all = append(all, p)
		}
	}
	return all, nil
}

func ask(ctx context.Context, conn redisstore.Conn, cmd redisstore.Command) ([]string, error) {
	var replies [1]redisstore.Reply
	conn.Do(ctx, []redisstore.Command{cmd}, replies[:])
	if err := replies[0].Err; err != nil {
		var answered redisstore.ServerError
		if !errors.As(err, &answered) {
			err = fmt.Errorf("%w: %w", weir.ErrUnavailable, err)
		}
		return nil, fmt.Errorf("instances: %w", err)
	}
	return replies[0].Items, nil
}

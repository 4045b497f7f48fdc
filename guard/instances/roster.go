// Package roster tells in Redis which functions the processes of a fleet limit, so that
// one look says which limits are live and where.
//
//	p := roster.Post{Conn: conn, Registry: guard.Default(), Service: "shop"}
//	go p.Run(ctx)
//
// The admin door of weir lists them at /v1/functions, and [Read] does in a program.
//
// What is told is for operators: the names, numbers and counts of guards, and where in
// the source they stand. A process that ends is forgotten after [TTL].
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
	// TTL is how long a process is listed after it told of itself.
	TTL = 30 * time.Second

	// DefaultEvery is how often a process tells of itself.
	DefaultEvery = 10 * time.Second

	// MaxProcesses is how many are listed; one more is refused.
	MaxProcesses = 1000

	// MaxSize is the longest list of a process in JSON, in bytes.
	MaxSize = 1 << 20

	// In a cluster the keys share a slot.
	index  = "weir:1:{functions}"
	prefix = index + ":"
)

// A Process is what one process told.
type Process struct {
	Service string    `json:"service"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Since   time.Time `json:"since"` // when it began to tell, by its clock

	// Functions are its guards, as guard.Registry.ServeHTTP has them.
	Functions json.RawMessage `json:"functions"`
}

// A Post tells what a process limits. Conn, Registry and Service are required.
type Publisher struct {
	Conn     redisstore.Conn
	Registry *guard.Registry

	// Service is what the program is called, 1 to 64 bytes.
	Service string

	// Every is how often to tell; DefaultEvery if zero, at most half of TTL.
	Every time.Duration

	// Trouble, if not nil, is told why telling failed, once for each reason, and nil
	// when it works again. Telling goes on.
	OnError func(error)
}

// tell keeps a process on the list.
//
// KEYS[1] the index, by the second of the last word; KEYS[2] the word of the process.
// ARGV[1] its id; ARGV[2] the word; ARGV[3] the life of a word in seconds; ARGV[4] how
// many may be listed. Returns 1, or 0 if the list is full.
const tell = `
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

// Run tells at once, and again and again until ctx is done; then it takes the process
// off the list. It returns the cause of ctx's end, or what is wrong with p.
func (p *Publisher) Run(ctx context.Context) error {
	every := p.Every
	if every == 0 {
		every = DefaultEvery
	}
	switch {
	case p.Conn == nil || p.Registry == nil:
		return fmt.Errorf("roster: %w: want Conn and Registry", weir.ErrInvalid)
	case p.Service == "" || len(p.Service) > 64:
		return fmt.Errorf("roster: service %.80q: %w: want 1 to 64 bytes", p.Service, weir.ErrInvalid)
	case every < 0 || every > TTL/2:
		return fmt.Errorf("roster: every %v: %w: want at most %v", every, weir.ErrInvalid, TTL/2)
	}
	host, _ := os.Hostname()
	me := Process{Service: p.Service, Host: host, PID: os.Getpid(), Since: time.Now().UTC().Truncate(time.Second)}
	id, last := rand.Text(), ""
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := p.tell(ctx, id, me)
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

func (p *Publisher) tell(ctx context.Context, id string, me Process) error {
	live, err := json.Marshal(p.Registry.Live())
	if err != nil {
		return fmt.Errorf("roster: %w", err)
	}
	me.Functions = live
	word, err := json.Marshal(me)
	if err != nil {
		return fmt.Errorf("roster: %w", err)
	}
	if len(word) > MaxSize {
		return fmt.Errorf("roster: %d bytes: %w: want at most %d", len(word), weir.ErrInvalid, MaxSize)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	items, err := ask(ctx, p.Conn, redisstore.Command{
		Head: []string{"EVAL", tell, "2"}, Keys: []string{index, prefix + id},
		Args: []string{id, string(word), strconv.Itoa(int(TTL / time.Second)), strconv.Itoa(MaxProcesses)},
	})
	if err != nil {
		return err
	}
	if len(items) != 1 || items[0] != "1" {
		return fmt.Errorf("roster: %d processes are listed already: want at most that many", MaxProcesses)
	}
	return nil
}

// leave takes the process off the list. If that fails, it is forgotten after TTL.
func (p *Publisher) leave(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	cmds := []redisstore.Command{
		{Head: []string{"ZREM"}, Keys: []string{index}, Args: []string{id}},
		{Head: []string{"DEL"}, Keys: []string{prefix + id}},
	}
	p.Conn.Do(ctx, cmds, make([]redisstore.Reply, len(cmds)))
}

// Read is the processes that are listed, in the order in which they last told. What
// cannot be read of one is left out.
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
		return nil, fmt.Errorf("roster: %w", err)
	}
	return replies[0].Items, nil
}

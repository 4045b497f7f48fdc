// Package instances reports Go programs that limit themselves to weir serve: the functions
// and counters of each process, and the version of the policies that it follows.
//
//	p := instances.Publisher{Conn: conn, Service: "shop", Registry: guard.Default(), Policies: follower.Status}
//	go p.Run(ctx)
//
// The reports are kept in Redis. The admin listener of weir lists them at /v1/functions, and [Read]
// returns them to a program. A program without a connection to Redis sets URL instead of Conn.
//
// The list is for operators: it has the names, limits, counters and source positions of guards. A
// process that ends is removed; one that no longer reports is stale after [StaleAfter], and removed
// after [TTL].
package instances

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/redisstore"
)

const (
	// StaleAfter is the age of a report from which a process may have ended.
	StaleAfter = 10 * time.Second

	// TTL is the time that a process stays listed after its last report.
	TTL = 10 * time.Minute

	// DefaultEvery is the default interval between reports.
	DefaultEvery = 2 * time.Second

	// MaxProcesses bounds the list. One more process replaces the oldest stale one; without
	// one it is refused.
	MaxProcesses = 1000

	// MaxSize is the largest JSON of a report, in bytes. Functions above it are omitted,
	// those with the fewest calls first.
	MaxSize = 256 << 10

	// maxRead bounds the reports with functions that Read returns, in bytes.
	maxRead = 32 << 20

	// In a cluster the keys share a slot.
	index  = "weir:1:{functions}"
	prefix = index + ":"

	// Nginx is the Service of an nginx with weir edge, whose Lua reports like a program.
	Nginx = "nginx"

	maxName    = 64
	maxHost    = 255
	maxProblem = 1000
)

// A Process is the report of one process.
type Process struct {
	ID      string    `json:"id"` // random, from its start
	Service string    `json:"service"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Since   time.Time `json:"since"` // its first report, by its clock

	// Version is the number of the published policies in force; 0 if there is none. Problem
	// says why the last version is not in force, or that its source is unavailable.
	Version int64  `json:"version"`
	Problem string `json:"problem,omitempty"`

	// Adjusts means that it applies the adjustments of single keys, too.
	Adjusts bool `json:"adjusts,omitempty"`

	// Policies are those whose decisions it counts: see Counters.
	Policies []PolicyRate `json:"policies,omitempty"`

	// Functions are its guards and resources, and Omitted is the number of further ones.
	Functions []Function `json:"functions"`
	Omitted   int        `json:"omitted,omitempty"`

	// Left means that the process ends: Post removes it from the list.
	Left bool `json:"left,omitempty"`

	// Seen is the age of the report by the clock of Redis. Only Read sets it.
	Seen time.Duration `json:"-"`
}

// Stale reports whether the process may have ended without a report.
func (p *Process) Stale() bool { return p.Seen >= StaleAfter }

// A Function is a guard or a resource of a process: see guard.Status.
type Function struct {
	Name        string            `json:"name"`
	Function    string            `json:"function,omitempty"`
	File        string            `json:"file,omitempty"`
	Line        int               `json:"line,omitempty"`
	BuiltBy     string            `json:"built_by,omitempty"`
	Limits      []string          `json:"limits"`
	Rule        bool              `json:"rule"` // Limits come from a policy file
	Mode        policy.Mode       `json:"mode"`
	Protections map[string]string `json:"protections,omitempty"` // states by name

	// BreakerOpen is the time from the report on until an open breaker admits a trial, in s.
	BreakerOpen float64 `json:"breaker_open_seconds,omitempty"`

	// Calls is the number of calls per second in the last ten seconds, Denied that of
	// denied calls, and Failed that of admitted calls that returned an error.
	Calls  float64 `json:"calls"`
	Denied float64 `json:"denied"`
	Failed float64 `json:"failed"`

	// Total has the counts since the start of the process.
	Total Counts `json:"total"`
}

// Counts are numbers of calls.
type Counts struct {
	Passed      int64   `json:"passed"`
	Denied      int64   `json:"denied"`
	Undecided   int64   `json:"undecided"`
	Failed      int64   `json:"failed"`
	KeyFaults   int64   `json:"key_faults"`
	Running     int64   `json:"running"`
	BusySeconds float64 `json:"busy_seconds"`
}

// check validates a report of a program, and shortens its problem.
func (p *Process) check() error {
	field, value, want := "", "", ""
	switch {
	case len(p.ID) < 16 || len(p.ID) > maxName || strings.ContainsFunc(p.ID, func(r rune) bool { return (r < '0' || r > '9') && (r < 'A' || r > 'Z') }):
		field, value, want = "id", p.ID, fmt.Sprintf("16 to %d letters A to Z and digits", maxName)
	case p.Service == "" || len(p.Service) > maxName:
		field, value, want = "service", p.Service, fmt.Sprintf("1 to %d bytes", maxName)
	case len(p.Host) > maxHost:
		field, value, want = "host", p.Host, fmt.Sprintf("at most %d bytes", maxHost)
	case len(p.Policies) > MaxPolicies:
		field, value, want = "policies", strconv.Itoa(len(p.Policies)), fmt.Sprintf("at most %d", MaxPolicies)
	case slices.ContainsFunc(p.Policies, func(one PolicyRate) bool { return len(one.Name) > maxHost }):
		field, value, want = "policies", "a long name", fmt.Sprintf("names of at most %d bytes", maxHost)
	case p.Version < 0 || p.PID < 0 || p.Omitted < 0:
		field, value, want = "version, pid, omitted", fmt.Sprint(p.Version, ", ", p.PID, ", ", p.Omitted), "numbers from 0"
	}
	if field != "" {
		return &FieldError{field, fmt.Sprintf("%.80q", value), want}
	}
	if len(p.Problem) > maxProblem {
		p.Problem = strings.ToValidUTF8(p.Problem[:maxProblem], "") + "…"
	}
	return nil
}

// A FieldError reports an invalid field of a Process. It wraps weir.ErrInvalid.
type FieldError struct{ Field, Value, Expected string }

// Error implements error.
func (e *FieldError) Error() string {
	return fmt.Sprintf("instances: %s: got %s, want %s", e.Field, e.Value, e.Expected)
}

// Unwrap returns weir.ErrInvalid.
func (e *FieldError) Unwrap() error { return weir.ErrInvalid }

// encode returns the JSON of p, with as many functions as fit.
func (p Process) encode() ([]byte, error) {
	p.Functions = append([]Function{}, p.Functions...)
	text, err := json.Marshal(p)
	if len(text) > MaxSize {
		slices.SortStableFunc(p.Functions, func(a, b Function) int {
			return int(min(max(b.Total.Passed+b.Total.Denied-a.Total.Passed-a.Total.Denied, -1), 1))
		})
	}
	for len(text) > MaxSize && err == nil {
		most := len(p.Functions) * 7 / 8
		p.Omitted += len(p.Functions) - most
		p.Functions = p.Functions[:most]
		text, err = json.Marshal(p)
	}
	if err != nil {
		return nil, fmt.Errorf("instances: %w", err)
	}
	return text, nil
}

// put puts a process on the list, or keeps it there.
//
// KEYS[1] the index, by the time of the last report in ms; KEYS[2] the record of the process.
//
// ARGV[1] its id; ARGV[2] the record; ARGV[3] the TTL of a record in ms.
//
// ARGV[4] the maximum length of the list; ARGV[5] the age in ms from which a record is stale.
//
// Returns 1, or 0 if the list is full.
const put = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - ARGV[3]))
redis.call('ZREM', KEYS[1], ARGV[1])
if redis.call('ZCOUNT', KEYS[1], '-inf', '+inf') >= tonumber(ARGV[4]) then
  local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  if tonumber(oldest[2]) > now - ARGV[5] then
    return 0
  end
  redis.call('ZREM', KEYS[1], oldest[1]) -- its record expires
end
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return 1
`

// list returns the time in ms, and the id and the time of the last report of each process of the
// index KEYS[1], at most ARGV[1], the oldest first.
const list = `
local time = redis.call('TIME')
local all = redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1, 'WITHSCORES')
table.insert(all, 1, string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)))
return all
`

// Post puts the report of a process on the list, or removes it if p.Left is set. A Publisher does
// this at intervals; weir serve does it for programs that report over HTTP. An invalid field is a
// *FieldError.
func Post(ctx context.Context, conn redisstore.Conn, p Process) error {
	if err := p.check(); err != nil {
		return err
	}
	if p.Left {
		cmds := []redisstore.Command{
			{Head: []string{"ZREM"}, Keys: []string{index}, Args: []string{p.ID}},
			{Head: []string{"DEL"}, Keys: []string{prefix + p.ID}},
		}
		replies := make([]redisstore.Reply, len(cmds))
		conn.Do(ctx, cmds, replies)
		return errors.Join(failure(replies[0].Err), failure(replies[1].Err))
	}
	record, err := p.encode()
	if err != nil {
		return err
	}
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	items, err := ask(ctx, conn, redisstore.Command{
		Head: []string{"EVAL", put, "2"}, Keys: []string{index, prefix + p.ID},
		Args: []string{p.ID, string(record), ms(TTL), strconv.Itoa(MaxProcesses), ms(StaleAfter)},
	})
	if err != nil {
		return err
	}
	if len(items) != 1 || items[0] != "1" {
		return fmt.Errorf("instances: list full: got %d processes already", MaxProcesses)
	}
	return nil
}

// batch is the number of records that Read asks for at a time.
const batch = 64

// Read returns the listed processes, in the order of their last reports. Unreadable records are
// left out. If all functions together are too large, those of further processes are omitted.
func Read(ctx context.Context, conn redisstore.Conn) ([]Process, error) {
	items, err := ask(ctx, conn, redisstore.Command{Head: []string{"EVAL", list, "1"}, Keys: []string{index}, Args: []string{strconv.Itoa(MaxProcesses)}})
	if err != nil || len(items) == 0 {
		return nil, err
	}
	now, items := items[0], items[1:]
	var all []Process
	size := 0
	for len(items) > 1 {
		n := min(len(items)/2, batch)
		cmds, replies := make([]redisstore.Command, n), make([]redisstore.Reply, n)
		for i := range n {
			cmds[i] = redisstore.Command{Head: []string{"GET"}, Keys: []string{prefix + items[2*i]}}
		}
		conn.Do(ctx, cmds, replies)
		for i, r := range replies {
			var p Process
			if r.Err != nil || len(r.Items) != 1 || json.Unmarshal([]byte(r.Items[0]), &p) != nil || p.Service == "" {
				continue
			}
			if size += len(r.Items[0]); size > maxRead {
				p.Functions, p.Omitted = []Function{}, p.Omitted+len(p.Functions)
			}
			if p.Functions == nil { // nginx has none
				p.Functions = []Function{}
			}
			p.ID, p.Seen = items[2*i], age(now, items[2*i+1])
			all = append(all, p)
		}
		items = items[2*n:]
	}
	return all, nil
}

// age returns the time between two times in ms.
func age(now, then string) time.Duration {
	a, errA := strconv.ParseFloat(now, 64)
	b, errB := strconv.ParseFloat(then, 64)
	if errA != nil || errB != nil || math.IsNaN(a-b) {
		return TTL
	}
	return time.Duration(min(max(a-b, 0), float64(TTL/time.Millisecond))) * time.Millisecond
}

func ask(ctx context.Context, conn redisstore.Conn, cmd redisstore.Command) ([]string, error) {
	var replies [1]redisstore.Reply
	conn.Do(ctx, []redisstore.Command{cmd}, replies[:])
	return replies[0].Items, failure(replies[0].Err)
}

// failure returns the error of a command for callers.
func failure(err error) error {
	var answered redisstore.ServerError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &answered):
		err = fmt.Errorf("%w: %w", weir.ErrUnavailable, err)
	}
	return fmt.Errorf("instances: %w", err)
}

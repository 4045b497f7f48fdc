package redisinventory

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/redis/rueidis"
)

//go:embed lua/*.lua
var files embed.FS

// script is the text of a Lua script and its hash.
type script struct {
	name, text, sha string
}

// scripts holds the scripts of this package by name. Scripts that use a whole state begin with
// common.lua, and those that use tickets continue with queue.lua.
type scripts struct {
	begin, build, open, close, drop, pause, stock, terms, paid, look, join, poll, reserve, transfer, giveBack, count, next, done, attend script
}

func load() (*scripts, error) {
	common, err := files.ReadFile("lua/common.lua")
	if err != nil {
		return nil, err
	}
	queue, err := files.ReadFile("lua/queue.lua")
	if err != nil {
		return nil, err
	}
	const (
		alone = iota
		withState
		withQueue
	)
	s := &scripts{}
	for _, f := range []struct {
		to   *script
		name string
		uses int
	}{
		{&s.begin, "begin", withState}, {&s.build, "build", alone}, {&s.open, "open", withState},
		{&s.close, "close", withState}, {&s.drop, "drop", withState}, {&s.pause, "pause", withState},
		{&s.stock, "stock", withState}, {&s.terms, "terms", withState}, {&s.paid, "paid", withState}, {&s.look, "look", withQueue},
		{&s.join, "join", withQueue}, {&s.poll, "poll", withQueue}, {&s.reserve, "reserve", withQueue},
		{&s.transfer, "transfer", withState}, {&s.giveBack, "return", withState},
		{&s.count, "count", withQueue}, {&s.next, "next", alone}, {&s.done, "done", alone},
		{&s.attend, "attend", alone},
	} {
		text, err := files.ReadFile("lua/" + f.name + ".lua")
		if err != nil {
			return nil, err
		}
		f.to.name, f.to.text = f.name, string(text)
		if f.uses == withQueue {
			f.to.text = string(queue) + "\n" + f.to.text
		}
		if f.uses != alone {
			f.to.text = string(common) + "\n" + f.to.text
		}
		sum := sha1.Sum([]byte(f.to.text))
		f.to.sha = hex.EncodeToString(sum[:])
	}
	return s, nil
}

// call runs a script and returns its reply: at least one word.
func (g *Inventory) call(ctx context.Context, s *script, keys, args []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Deadline)
	defer cancel()
	n := strconv.Itoa(len(keys))
	reply := g.client.Do(ctx, g.client.B().Arbitrary("EVALSHA", s.sha, n).Keys(keys...).Args(args...).Build())
	if e, ok := rueidis.IsRedisErr(reply.Error()); ok && e.IsNoScript() {
		reply = g.client.Do(ctx, g.client.B().Arbitrary("EVAL", s.text, n).Keys(keys...).Args(args...).Build())
	}
	words, err := reply.AsStrSlice()
	if err == nil && len(words) == 0 {
		err = errReply
	}
	if err != nil {
		return nil, g.failed(s.name, err)
	}
	return words, nil
}

var (
	errReply   = errors.New("a reply that no script gives")
	errDamaged = errors.New("the state is damaged")
)

// failed converts an error: the content of the state is corrupt, or the server is unavailable.
func (g *Inventory) failed(doing string, err error) error {
	e, ok := rueidis.IsRedisErr(err)
	if !ok || temporary(e.Error()) {
		select {
		case g.kick <- struct{}{}:
		default:
		}
		return fmt.Errorf("redisinventory: %s: %w: %w", doing, sale.ErrUnavailable, err)
	}
	// A script fails if a key has another type or if a record cannot be parsed.
	if text := e.Error(); strings.Contains(text, "WRONGTYPE") || strings.Contains(text, "attempt to ") {
		return fmt.Errorf("redisinventory: %s: %w: %w: %w", doing, sale.ErrStale, errDamaged, err)
	}
	return fmt.Errorf("redisinventory: %s: %w", doing, err)
}

// temporary reports whether an error reply is about the server and not about the request.
func temporary(text string) bool {
	// The error of a command in a script can follow the text of the script.
	for _, code := range []string{
		"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "OOM", "BUSY", "MISCONF",
		"NOREPLICAS", "MOVED", "ASK", "NOAUTH", "WRONGPASS", "NOPERM", "UNBLOCKED", "UNKILLABLE",
	} {
		if strings.HasPrefix(text, code+" ") || strings.Contains(text, "-"+code+" ") {
			return true
		}
	}
	return strings.Contains(text, "max number of clients") || strings.Contains(text, "out of memory")
}

// on runs a script on the state of a sale at an epoch, and returns the reply after the time.
func (g *Inventory) on(ctx context.Context, s *script, id string, epoch int64, args ...string) ([]string, int64, error) {
	if !possible(id, epoch) {
		return nil, 0, staleError(s.name, id, epoch, "none")
	}
	keys, seen, err := g.states.recall(s.name, id, epoch)
	if err != nil {
		return nil, 0, err
	}
	words, err := g.call(ctx, s, keys, append([]string{strconv.FormatInt(epoch, 10), g.clock(), strconv.FormatInt(seen, 10)}, args...))
	if err != nil {
		if errors.Is(err, errDamaged) {
			g.forsake(ctx, id, epoch)
		}
		return nil, 0, err
	}
	switch {
	case words[0] == "stale" && len(words) == 2:
		return nil, 0, g.states.lost(s.name, id, epoch, words[1])
	case words[0] != "ok" || len(words) < 2:
		return nil, 0, g.failed(s.name, errReply)
	}
	now, err := strconv.ParseInt(words[1], 10, 64)
	if err != nil {
		return nil, 0, g.failed(s.name, errReply)
	}
	g.states.remember(id, epoch, keys, now)
	return words[2:], now, nil
}

// possible reports whether a state with this ID and epoch can exist.
func possible(id string, epoch int64) bool {
	return id != "" && len(id) <= 64 && epoch > 0
}

// clock returns the time of Config.Clock, or an empty string without one. It never goes back.
func (g *Inventory) clock() string {
	if g.cfg.Clock == nil {
		return ""
	}
	now := g.cfg.Clock().UnixMicro()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.latest = max(g.latest, now)
	return itoa(g.latest)
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// numbers parses numbers in a reply.
func numbers(words ...string) ([]int64, error) {
	out := make([]int64, len(words))
	for i, w := range words {
		n, err := strconv.ParseInt(w, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %.40q, want a number", errReply, w)
		}
		out[i] = n
	}
	return out, nil
}

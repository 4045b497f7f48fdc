// Package nodestest has a Redis for tests of package nodes and of packages that use it.
package nodestest

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/floodweir/weir/redisstore"
)

// A Redis is a redisstore.Conn that runs the scripts of package nodes in Go, by the clock of the
// test.
type Redis struct {
	mu    sync.Mutex
	err   error
	sets  map[string]map[string]int64 // members by key, with their scores in ms
	texts map[string]text
}

type text struct {
	value string
	until time.Time
}

// New returns an empty Redis.
func New() *Redis {
	return &Redis{sets: map[string]map[string]int64{}, texts: map[string]text{}}
}

// Cluster implements redisstore.Conn.
func (r *Redis) Cluster() bool { return false }

// Fail makes every command return err; nil ends that.
func (r *Redis) Fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// Do implements redisstore.Conn.
func (r *Redis) Do(_ context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, c := range cmds {
		items, err := r.run(c)
		replies[i] = redisstore.Reply{Items: items, Err: err}
	}
}

func (r *Redis) run(c redisstore.Command) ([]string, error) {
	if r.err != nil {
		return nil, r.err
	}
	for _, key := range c.Keys {
		if !strings.HasPrefix(key, "weir:1:{nodes}") {
			return nil, redisstore.ServerError("NOPERM " + key)
		}
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(c.Args[i], 10, 64)
		return n
	}
	now := time.Now().UnixMilli()
	switch {
	case c.Head[0] == "SET":
		r.texts[c.Keys[0]] = text{c.Args[0], time.Now().Add(time.Duration(number(2)) * time.Millisecond)}
		return []string{"OK"}, nil
	case c.Head[0] == "ZREM":
		delete(r.sets[c.Keys[0]], c.Args[0])
		return []string{"1"}, nil
	case c.Head[0] == "DEL":
		delete(r.texts, c.Keys[0])
		return []string{"1"}, nil
	case c.Head[0] == "EVAL" && len(c.Keys) == 5: // update
		if !r.add(c.Keys[0], c.Args[0], now, now-number(3), number(4)) {
			return nil, nil
		}
		end := time.Now().Add(time.Duration(number(3)) * time.Millisecond)
		r.texts[c.Keys[1]] = text{c.Args[1], time.Now().Add(time.Duration(number(2)) * time.Millisecond)}
		for i, key := range c.Keys[3:] { // seed and secret
			if t := r.texts[key]; !time.Now().Before(t.until) {
				r.texts[key] = text{c.Args[5+i], end}
			} else {
				r.texts[key] = text{t.value, end}
			}
		}
		r.trim(c.Keys[2], now)
		return append([]string{r.texts[c.Keys[3]].value, r.texts[c.Keys[4]].value}, r.members(c.Keys[2], false)...), nil
	case c.Head[0] == "EVAL" && len(c.Args) == 0: // read
		t := r.texts[c.Keys[0]]
		if !time.Now().Before(t.until) {
			return []string{""}, nil
		}
		return []string{t.value}, nil
	case c.Head[0] == "EVAL" && len(c.Args) == 1: // list
		return append([]string{strconv.FormatInt(now, 10)}, r.members(c.Keys[0], true)...), nil
	case c.Head[0] == "EVAL" && len(c.Args) == 3: // want
		if !r.add(c.Keys[0], c.Args[0], now+number(1), now, number(2)) {
			return []string{"0"}, nil
		}
		return []string{"1"}, nil
	}
	return nil, redisstore.ServerError("ERR unknown command " + c.Head[0])
}

// trim removes the members of a set with scores up to a value.
func (r *Redis) trim(key string, upTo int64) {
	for m, at := range r.sets[key] {
		if at <= upTo {
			delete(r.sets[key], m)
		}
	}
}

// add trims a set and adds a member, unless it is full.
func (r *Redis) add(key, member string, score, upTo, most int64) bool {
	if r.sets[key] == nil {
		r.sets[key] = map[string]int64{}
	}
	r.trim(key, upTo)
	delete(r.sets[key], member)
	if int64(len(r.sets[key])) >= most {
		return false
	}
	r.sets[key][member] = score
	return true
}

func (r *Redis) members(key string, scores bool) (all []string) {
	var names []string
	for m := range r.sets[key] {
		names = append(names, m)
	}
	slices.Sort(names)
	for _, m := range names {
		all = append(all, m)
		if scores {
			all = append(all, strconv.FormatInt(r.sets[key][m], 10))
		}
	}
	return all
}

// Texts returns the values by key, also expired ones.
func (r *Redis) Texts() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]string{}
	for key, t := range r.texts {
		all[key] = t.value
	}
	return all
}

// ForgetTexts removes all keys but sorted sets.
func (r *Redis) ForgetTexts() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.texts)
}

// Add adds a member with the score of now to a sorted set.
func (r *Redis) Add(key, member string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(key, member, time.Now().UnixMilli(), 0, math.MaxInt64)
}

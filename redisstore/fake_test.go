package redisstore_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/redisstore"
)

// A fakeConn replies with do and records the calls.
type fakeConn struct {
	cluster bool
	do      func(ctx context.Context, cmds []redisstore.Command, replies []redisstore.Reply)

	mu    sync.Mutex
	trips [][]call
}

func (c *fakeConn) Cluster() bool { return c.cluster }

func (c *fakeConn) Do(ctx context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
	var trip []call
	for _, cmd := range cmds {
		trip = append(trip, parseCall(cmd))
	}
	c.mu.Lock()
	c.trips = append(c.trips, trip)
	c.mu.Unlock()
	if c.do != nil {
		c.do(ctx, cmds, replies)
		return
	}
	for i, cmd := range cmds {
		replies[i] = grant(cmd)
	}
}

// asked returns the calls of each round trip as text.
func (c *fakeConn) asked() [][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all [][]string
	for _, trip := range c.trips {
		var texts []string
		for _, t := range trip {
			texts = append(texts, t.String())
		}
		all = append(all, texts)
	}
	return all
}

// A call is a Command as lua/main.lua or lua/takes.lua parses it.
type call struct {
	name               string
	clock, slack, mode int64
	keys               []string
	verbs, ns, refs    []int64
	more               []string
	takes              bool
	sizes              []int // of the groups of a call of takes.lua
}

func parseCall(cmd redisstore.Command) call {
	c := call{name: cmd.Head[0], keys: cmd.Keys}
	if len(cmd.Args) == 0 {
		return c
	}
	n := numbers(cmd.Args[0])
	c.clock, c.slack = n[0], n[1]
	if len(cmd.Args) == 1 {
		c.parseTakes([]byte(cmd.Args[0]))
		return c
	}
	c.mode = n[2]
	for r := n[3:]; len(r) > 0; r = r[5:] {
		c.refs = append(c.refs, r[0])
		c.verbs = append(c.verbs, r[2])
		c.ns = append(c.ns, r[3])
		more := ""
		if r[4] > 0 {
			more = cmd.Args[r[4]-1]
		}
		c.more = append(c.more, more)
	}
	return c
}

// parseTakes parses the units of a call of lua/takes.lua. Groups of several requests get mode 1.
func (c *call) parseTakes(b []byte) {
	c.takes = true
	b = b[20 : binary.LittleEndian.Uint32(b[16:])-1]
	short := func(at int) int { return int(binary.LittleEndian.Uint16(b[at:])) }
	for len(b) > 0 {
		size, times := max(1, short(0)), short(2)
		for range times {
			for i := range size {
				c.refs = append(c.refs, int64(short(4+14*i)))
				c.verbs = append(c.verbs, int64(weir.Take))
				c.ns = append(c.ns, int64(binary.LittleEndian.Uint64(b[10+14*i:])))
				c.more = append(c.more, "")
			}
			c.sizes = append(c.sizes, size)
		}
		if size > 1 {
			c.mode = 1
		}
		b = b[4+14*size:]
	}
}

// states is the reply of lua/takes.lua: every state is text, and admitted groups were admitted.
func (c call) states(text string, admitted int) redisstore.Reply {
	states := strings.Join(slices.Repeat([]string{text}, len(c.keys)), "\n")
	return redisstore.Reply{Items: []string{pack(fakeNow, int64(admitted)) + "\x00\x00" + states}}
}

// String returns a text such as "EVALSHA mode 1: take 3 {k}:10/s+burst+20".
func (c call) String() string {
	var b strings.Builder
	b.WriteString(c.name)
	if c.mode != 0 {
		b.WriteString(" mode " + strconv.FormatInt(c.mode, 10))
	}
	for i, v := range c.verbs {
		b.WriteString("; " + weir.Verb(v).String() + " " + strconv.FormatInt(c.ns[i], 10) +
			" " + strings.TrimPrefix(c.keys[c.refs[i]-1], "weir:1:"))
	}
	return b.String()
}

func numbers(packed string) (ns []int64) {
	for b := []byte(packed); len(b) >= 8; b = b[8:] {
		ns = append(ns, int64(binary.LittleEndian.Uint64(b)))
	}
	return ns
}

func pack(ns ...int64) string {
	var b []byte
	for _, n := range ns {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return string(b)
}

// fakeNow is the time of every decision.
const fakeNow = 1_700_000_000_000_000

// grant replies OK to every request of a call. The states of Takes were not used before.
func grant(cmd redisstore.Command) redisstore.Reply {
	c := parseCall(cmd)
	if c.takes {
		return c.states("", len(c.sizes))
	}
	var items []string
	for _, n := range c.ns {
		items = append(items, pack(1, n, 7, 0, 1000, 0, fakeNow))
	}
	return redisstore.Reply{Items: items}
}

// deny denies every request of a call. For a Take, the bucket of tenPerSecond is empty.
func deny(cmd redisstore.Command) redisstore.Reply {
	if c := parseCall(cmd); c.takes {
		return c.states(fmt.Sprintf("[%d,0,%d]", int64(fakeNow+2_000_000), int64(fakeNow)), 0)
	}
	var items []string
	for range parseCall(cmd).ns {
		items = append(items, pack(0, 0, 0, 1000, 1000, 0, fakeNow))
	}
	return redisstore.Reply{Items: items}
}

func fails(err error) redisstore.Reply { return redisstore.Reply{Err: err} }

var errLost = io.ErrUnexpectedEOF

func newStore(t testing.TB, conn redisstore.Conn, c redisstore.Config) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(conn, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var tenPerSecond = weir.MustLimit("10/s burst 20")

func take(key string, n int64) weir.Request {
	return weir.Request{Verb: weir.Take, Key: key, Limit: tenPerSecond, N: n}
}

package nodes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/redisstore"
)

const (
	index  = "weir:1:{nodes}"
	wanted = index + ":wanted"
	seed   = index + ":seed"
	secret = index + ":secret"
)

var (
	errNotConnected = fmt.Errorf("nodes: %w", weir.ErrUnavailable)
	errFull         = errors.New("list of nodes full")
)

func recordKey(id string) string { return index + ":" + id }

func detailsKey(id, topic string) string { return recordKey(id) + ":" + url.QueryEscape(topic) }

// update writes the record of a node. It returns the seed and the secret that all nodes use, and
// the wanted topics.
//
// KEYS[1] the index; KEYS[2] the record; KEYS[3] the wanted topics; KEYS[4] the seed;
// KEYS[5] the secret.
//
// ARGV[1] the identity; ARGV[2] the record; ARGV[3] its TTL in ms; ARGV[4] the TTL of
// identity, seed and secret in ms.
//
// ARGV[5] the maximum length of the index; ARGV[6] the seed of this node; ARGV[7] its
// secret. Returns {seed, secret, topic…}, or {} if the index is full.
const update = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[4])
redis.call('ZREM', KEYS[1], ARGV[1])
if redis.call('ZCOUNT', KEYS[1], '-inf', '+inf') >= tonumber(ARGV[5]) then
  return {}
end
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
local seed = redis.call('GET', KEYS[4]) or ARGV[6]
redis.call('SET', KEYS[4], seed, 'PX', ARGV[4])
local secret = redis.call('GET', KEYS[5]) or ARGV[7]
redis.call('SET', KEYS[5], secret, 'PX', ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
local reply = redis.call('ZRANGE', KEYS[3], 0, -1)
table.insert(reply, 1, seed)
table.insert(reply, 2, secret)
return reply
`

// writeRecord publishes this node and returns the wanted topics and what all nodes agree on.
func (x *Exchange) writeRecord(ctx context.Context, conn redisstore.Conn) (topics []string, agreed common, err error) {
	self := x.self()
	record, err := json.Marshal(self.State)
	if err != nil {
		return nil, agreed, fmt.Errorf("nodes: %w", err)
	}
	record = append(record, '\n')
	if len(self.Snapshot) <= MaxSnapshot {
		record = append(record, self.Snapshot...)
	}
	x.mu.Lock()
	own := x.common
	x.mu.Unlock()
	items, err := do(ctx, conn, redisstore.Command{
		Head: []string{"EVAL", update, "5"}, Keys: []string{index, recordKey(x.identity.ID), wanted, seed, secret},
		Args: []string{x.member, string(record), ms(TTL), ms(ListTTL), strconv.Itoa(MaxNodes), strconv.FormatUint(own.seed, 10), own.secret},
	})
	switch {
	case err != nil:
		return nil, agreed, err
	case len(items) == 0:
		return nil, agreed, fmt.Errorf("nodes: %w: got %d nodes already", errFull, MaxNodes)
	case len(items) == 1:
		return nil, agreed, errors.New("nodes: unexpected reply: got no secret")
	}
	if agreed.seed, err = strconv.ParseUint(items[0], 10, 64); err != nil {
		return nil, agreed, fmt.Errorf("nodes: %s: want a number, got %.40q", seed, items[0])
	}
	agreed.secret = items[1]
	return items[2:min(len(items), 2+MaxWanted)], agreed, nil
}

// writeDetails publishes the payloads of topics that are due.
func (x *Exchange) writeDetails(ctx context.Context, conn redisstore.Conn, topics []string) error {
	now := time.Now()
	var cmds []redisstore.Command
	for _, topic := range topics {
		x.mu.Lock()
		due := now.Sub(x.sent[topic]) >= DetailsEvery-Every/2
		x.mu.Unlock()
		if !due || x.c.Details == nil {
			continue
		}
		if data := x.c.Details(topic); len(data) > 0 && len(data) <= MaxDetails {
			cmds = append(cmds, redisstore.Command{Head: []string{"SET"}, Keys: []string{detailsKey(x.identity.ID, topic)}, Args: []string{string(data), "PX", ms(WantTTL)}})
		}
		x.mu.Lock()
		x.sent[topic] = now
		x.mu.Unlock()
	}
	x.mu.Lock()
	for topic := range x.sent {
		if !slices.Contains(topics, topic) {
			delete(x.sent, topic)
		}
	}
	x.mu.Unlock()
	for _, r := range pipeline(ctx, conn, cmds) {
		if r.Err != nil {
			return wrap(r.Err)
		}
	}
	return nil
}

// leave removes this node. If that fails, others show it as stale for ListTTL.
func (x *Exchange) leave(ctx context.Context) {
	if conn := x.c.Conn(); conn != nil {
		pipeline(context.WithoutCancel(ctx), conn, []redisstore.Command{
			{Head: []string{"ZREM"}, Keys: []string{index}, Args: []string{x.member}},
			{Head: []string{"DEL"}, Keys: []string{recordKey(x.identity.ID)}},
		})
	}
}

// list returns the server's clock in ms and the index.
//
// KEYS[1] the index; ARGV[1] its maximum length. Returns {now, identity, instant…}.
const list = `
local time = redis.call('TIME')
local reply = redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1, 'WITHSCORES')
table.insert(reply, 1, string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)))
return reply
`

// readOthers returns the other nodes. Invalid identities are left out.
func (x *Exchange) readOthers(ctx context.Context) ([]Node, error) {
	conn := x.c.Conn()
	if conn == nil {
		return nil, errNotConnected
	}
	items, err := do(ctx, conn, redisstore.Command{Head: []string{"EVAL", list, "1"}, Keys: []string{index}, Args: []string{strconv.Itoa(MaxNodes)}})
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, errors.New("nodes: unexpected reply: got no time")
	}
	now, err := strconv.ParseInt(items[0], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("nodes: unexpected reply %.40q", items[0])
	}
	var all []Node
	var cmds []redisstore.Command
	for i := 1; i+1 < len(items); i += 2 {
		var n Node
		at, err := strconv.ParseFloat(items[i+1], 64)
		if err != nil || json.Unmarshal([]byte(items[i]), &n.Identity) != nil || n.ID == "" || n.ID == x.identity.ID {
			continue
		}
		n.Seen = max(0, time.Duration(now-int64(at))*time.Millisecond)
		n.Stale = true
		all = append(all, n)
		cmds = append(cmds, get(recordKey(n.ID)))
	}
	for i, r := range pipeline(ctx, conn, cmds) {
		if r.Err != nil {
			return nil, wrap(r.Err)
		}
		n := &all[i]
		if len(r.Items) == 1 && n.Seen < TTL {
			head, payload, found := bytes.Cut([]byte(r.Items[0]), []byte{'\n'})
			if found && json.Unmarshal(head, &n.State) == nil {
				n.Stale, n.Snapshot = false, payload
			}
		}
	}
	return all, nil
}

// read returns the text at KEYS[1], or "", because clients differ in how they report a nil
// reply.
const read = `return redis.call('GET', KEYS[1]) or ''`

func get(key string) redisstore.Command {
	return redisstore.Command{Head: []string{"EVAL", read, "1"}, Keys: []string{key}}
}

// want adds a topic to those that are wanted.
//
// KEYS[1] the wanted topics; ARGV[1] the topic; ARGV[2] its TTL in ms; ARGV[3] the maximum
// number of topics. Returns 1, or 0 if there are as many.
const want = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZREM', KEYS[1], ARGV[1])
if redis.call('ZCOUNT', KEYS[1], '-inf', '+inf') >= tonumber(ARGV[3]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
`

// Want asks all nodes to publish the payload of topic for WantTTL. It returns an error if
// Redis is unavailable or MaxWanted other topics are wanted. Without a Conn it does nothing.
func (x *Exchange) Want(ctx context.Context, topic string) error {
	if x.c.Conn == nil {
		return nil
	}
	if topic == "" || len(topic) > maxTopic {
		return fmt.Errorf("nodes: topic %.80q: %w: want 1 to %d bytes", topic, weir.ErrInvalid, maxTopic)
	}
	conn := x.c.Conn()
	if conn == nil {
		return errNotConnected
	}
	items, err := do(ctx, conn, redisstore.Command{
		Head: []string{"EVAL", want, "1"}, Keys: []string{wanted}, Args: []string{topic, ms(WantTTL), strconv.Itoa(MaxWanted)},
	})
	if err == nil && (len(items) != 1 || items[0] != "1") {
		return fmt.Errorf("nodes: topic %q: got %d other topics already", topic, MaxWanted)
	}
	return err
}

// Details returns the last payloads that the nodes with the given IDs published for topic.
// Nodes without one are left out.
func (x *Exchange) Details(ctx context.Context, topic string, ids []string) (map[string][]byte, error) {
	if x.c.Conn == nil || len(ids) == 0 {
		return nil, nil
	}
	conn := x.c.Conn()
	if conn == nil {
		return nil, errNotConnected
	}
	cmds := make([]redisstore.Command, len(ids))
	for i, id := range ids {
		cmds[i] = get(detailsKey(id, topic))
	}
	all := map[string][]byte{}
	for i, r := range pipeline(ctx, conn, cmds) {
		switch {
		case r.Err != nil:
			return nil, wrap(r.Err)
		case len(r.Items) == 1 && r.Items[0] != "":
			all[ids[i]] = []byte(r.Items[0])
		}
	}
	return all, nil
}

// pipeline sends cmds in one exchange.
func pipeline(ctx context.Context, conn redisstore.Conn, cmds []redisstore.Command) []redisstore.Reply {
	replies := make([]redisstore.Reply, len(cmds))
	if len(cmds) > 0 {
		ctx, cancel := context.WithTimeout(ctx, ioTimeout)
		defer cancel()
		conn.Do(ctx, cmds, replies)
	}
	return replies
}

func do(ctx context.Context, conn redisstore.Conn, c redisstore.Command) ([]string, error) {
	r := pipeline(ctx, conn, []redisstore.Command{c})[0]
	if r.Err != nil {
		return nil, wrap(r.Err)
	}
	return r.Items, nil
}

// wrap returns the error of a reply. It wraps weir.ErrUnavailable unless Redis reported it.
func wrap(err error) error {
	var answered redisstore.ServerError
	if !errors.As(err, &answered) {
		return fmt.Errorf("nodes: %w: %w", weir.ErrUnavailable, err)
	}
	return fmt.Errorf("nodes: %w", err)
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

package adjustment

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/audit"
	"github.com/floodweir/weir/internal/adjusted"
	"github.com/floodweir/weir/internal/revision"
	"github.com/floodweir/weir/redisstore"
)

const (
	// timeout bounds one change, and the wait for the one before.
	timeout = time.Second

	// forever is the end of an adjustment that is lifted, in ms.
	forever = 1e15
)

// change sets or lifts an adjustment, and appends an entry to the audit log.
//
//	KEYS the hash, the sorted set, the audit log
//	ARGV[1] set or lift
//	ARGV[2] the key
//	ARGV[3] the adjustment in JSON without until and at
//	ARGV[4] its end in ms since 1970, or 0
//	ARGV[5] its duration in ms instead, or 0
//	ARGV[6] its kind
//	ARGV[7] the ID of the change
//	ARGV[8] the largest number of adjustments
//	ARGV[9] the entry
//	ARGV[10] 1 if the caller knows adjustments
//
// It returns ok, the adjustment before or "", the one after or "", the time in ms, and the ID and
// time of the entry. If it changes nothing, it returns none, denied, full or lost.
const change = audit.Script + `
local function num(n) return string.format('%.0f', n) end
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
local version = redis.call('HGET', KEYS[1], 'version')
if not version and ARGV[10] == '1' then return { 'lost' } end
for _, key in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', num(ms), 'LIMIT', 0, 1000)) do
  redis.call('HDEL', KEYS[1], 'a:' .. key)
  redis.call('ZREM', KEYS[2], key)
end
local before, after = redis.call('HGET', KEYS[1], 'a:' .. ARGV[2]), ''
if ARGV[1] == 'lift' then
  if not before then return { 'none' } end
  redis.call('HDEL', KEYS[1], 'a:' .. ARGV[2])
  redis.call('ZREM', KEYS[2], ARGV[2])
else
  if before and ARGV[6] == 'raise' and cjson.decode(before).kind ~= 'raise' then return { 'denied' } end
  if not before and redis.call('ZCOUNT', KEYS[2], '-inf', '+inf') >= tonumber(ARGV[8]) then return { 'full' } end
  local ends = tonumber(ARGV[4])
  if ARGV[5] ~= '0' then ends = ms + tonumber(ARGV[5]) end
  after = '{"until":' .. num(ends) .. ',"at":' .. num(ms) .. ',' .. string.sub(ARGV[3], 2)
  redis.call('HSET', KEYS[1], 'a:' .. ARGV[2], after)
  if ends == 0 then ends = 1e15 end
  redis.call('ZADD', KEYS[2], num(ends), ARGV[2])
end
redis.call('HSET', KEYS[1], 'version', num(tonumber(version or '0') + 1), 'id', ARGV[7])
local entry = append(KEYS[3], ARGV[9])
return { 'ok', before or '', after, num(ms), entry[1], entry[2] }
`

// restore writes adjustments into a Redis that lost its data. ARGV is the ID, the entry for the audit
// log, and for each adjustment its key, its end in ms and its JSON. It does nothing if there is a
// version.
const restore = audit.Script + `
if redis.call('HGET', KEYS[1], 'version') then return 0 end
for i = 3, #ARGV, 3 do
  redis.call('HSET', KEYS[1], 'a:' .. ARGV[i], ARGV[i + 2])
  redis.call('ZADD', KEYS[2], ARGV[i + 1], ARGV[i])
end
redis.call('HSET', KEYS[1], 'version', '1', 'id', ARGV[1])
append(KEYS[3], ARGV[2])
return 1
`

// run calls a script.
func (s *Store) run(ctx context.Context, script string, args ...string) ([]string, error) {
	conn := s.c.Conn()
	if conn == nil {
		return nil, fmt.Errorf("adjustment: %w", weir.ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return eval(ctx, conn, script, args...)
}

func eval(ctx context.Context, conn redisstore.Conn, script string, args ...string) ([]string, error) {
	items, err := revision.Do(ctx, conn, redisstore.Command{Head: []string{"EVAL", script, "3"}, Keys: []string{adjusted.Key, adjusted.Ends, audit.Key}, Args: args})
	if err != nil {
		return nil, fmt.Errorf("adjustment: %w", err)
	}
	return items, nil
}

// changeRedis sets or lifts an adjustment in Redis.
func (s *Store) changeRedis(ctx context.Context, op string, a Adjustment, e audit.Entry) (before *Adjustment, _ audit.Entry, err error) {
	until := int64(0)
	if !a.Until.IsZero() {
		until = a.Until.UnixMilli()
	}
	if err := s.begin(ctx); err != nil {
		return nil, e, err
	}
	defer s.done()
	for range 2 {
		knows := "0"
		if len(s.Current()) > 0 {
			knows = "1"
		}
		reply, err := s.run(ctx, change, op, a.StateKey, a.encode(), strconv.FormatInt(until, 10), strconv.FormatInt(a.For.Milliseconds(), 10), string(a.Kind),
			rand.Text(), strconv.Itoa(Max), e.Encode(), knows)
		switch {
		case err != nil:
			return nil, e, err
		case len(reply) == 1 && reply[0] == "lost":
			if err := s.restore(ctx); err != nil {
				return nil, e, err
			}
			continue
		case len(reply) == 1:
			return nil, e, map[string]error{"none": ErrNone, "denied": ErrDenied, "full": ErrFull}[reply[0]]
		case len(reply) != 6:
			return nil, e, fmt.Errorf("adjustment: unexpected reply %.40q", reply)
		}
		if reply[1] != "" {
			was, err := decode(reply[1])
			if err != nil {
				return nil, e, err
			}
			before = &was
		}
		if e, err = e.Stored(reply[4:]); err != nil {
			return before, e, err
		}
		if reply[2] == "" {
			s.merge(a.StateKey, nil, reply[3])
			return before, e, nil
		}
		now, err := decode(reply[2])
		if err == nil {
			s.merge(a.StateKey, &now, reply[3])
		}
		return before, e, err
	}
	return nil, e, fmt.Errorf("adjustment: %w: the data was lost twice", weir.ErrUnavailable)
}

// restore writes the adjustments of this node into a Redis that lost its data.
func (s *Store) restore(ctx context.Context) error {
	all := s.Current()
	e := audit.Entry{Actor: "weir", Via: "cli", Action: "restore", OK: audit.Yes(), To: strconv.Itoa(len(all)) + " adjustments", Reason: "Redis lost its data"}
	args := []string{rand.Text(), e.Encode()}
	for i := range all {
		a := &all[i]
		until, at := int64(0), a.At.UnixMilli()
		if !a.Until.IsZero() {
			until = a.Until.UnixMilli()
		}
		ends := until
		if ends == 0 {
			ends = forever
		}
		args = append(args, a.StateKey, strconv.FormatInt(ends, 10), fmt.Sprintf(`{"until":%d,"at":%d,%s`, until, at, a.encode()[1:]))
	}
	_, err := s.run(ctx, restore, args...)
	return err
}

// readAll reads the adjustments at the position current.
func readAll(ctx context.Context, conn redisstore.Conn, current revision.Position) (map[string]held, error) {
	all, sent := map[string]held{}, time.Now()
	err := adjusted.Read(ctx, conn, current, func(r adjusted.Record, now int64) {
		a := of(r)
		all[a.StateKey] = hold(a, strconv.FormatInt(now, 10), sent)
	})
	return all, err
}

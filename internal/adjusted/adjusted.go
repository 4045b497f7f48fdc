// Package adjusted reads what operators set for single keys of published policies: other limits, a
// freeze or a block. weir serve writes it, and Go programs that follow the policies apply it.
//
//	for _, one := range records {
//		a, err := one.Adjustment() // for policy.Set.WithAdjustments
//		…
//	}
//
// # In Redis
//
// One hash, [Key], has these fields:
//
//   - version and id: see internal/revision;
//   - a:KEY: a [Record] in JSON, by the key of its states.
//
// The sorted set [Ends] has the keys by the time at which they end, in ms since 1970. Neither has an
// expiry. Each change removes the adjustments that have ended.
package adjusted

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/revision"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/redisstore"
)

// Keys in Redis, in one slot of a cluster.
const (
	Key  = "weir:1:adjustments{operations}"
	Ends = "weir:1:until{operations}"
)

// Raise is the Kind of a Record with other limits. All others deny all requests.
const Raise = "raise"

// A Record is the adjustment of one key.
type Record struct {
	Until  int64    `json:"until,omitempty"` // in ms since 1970; 0: until it is lifted
	At     int64    `json:"at,omitempty"`
	Policy string   `json:"policy"`
	Key    [][]byte `json:"key"` // values of clients are not always UTF-8
	State  []byte   `json:"state,omitempty"`
	Kind   string   `json:"kind"`
	Limits []string `json:"limits,omitempty"`
	Reason string   `json:"reason,omitempty"`
	By     string   `json:"by,omitempty"`

	Nginx json.RawMessage `json:"nginx,omitempty"` // Limits as edge/nginx reads them
}

// Values returns the values of the key.
func (r *Record) Values() (values []string) {
	for _, v := range r.Key {
		values = append(values, string(v))
	}
	return values
}

// Adjustment returns r for policy.Set.WithAdjustments.
func (r *Record) Adjustment() (policy.Adjustment, error) {
	a := policy.Adjustment{Policy: r.Policy, Key: r.Values(), Block: r.Kind != Raise, Note: r.Kind}
	for _, text := range r.Limits {
		l, err := weir.ParseLimit(text)
		if err != nil {
			return a, err
		}
		a.Limits = append(a.Limits, l)
	}
	return a, nil
}

// page is the number of adjustments that one script reads.
const page = 500

// read returns a page of the adjustments: the version, the ID and the time in ms, and then each in
// JSON. ARGV is the number of the first and the last.
const read = `
local now = redis.call('TIME')
local all = { redis.call('HGET', KEYS[1], 'version') or '0', redis.call('HGET', KEYS[1], 'id') or '',
  string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000)) }
for _, key in ipairs(redis.call('ZRANGE', KEYS[2], ARGV[1], ARGV[2])) do
  all[#all + 1] = redis.call('HGET', KEYS[1], 'a:' .. key) or ''
end
return all
`

// Read passes the adjustments at a position to add, with the time of Redis, in ms, when Read began.
// If they changed meanwhile, the error is revision.ErrChanged.
func Read(ctx context.Context, conn redisstore.Conn, at revision.Position, add func(r Record, now int64)) error {
	now := int64(0)
	for first := 0; ; first += page {
		items, err := revision.Do(ctx, conn, redisstore.Command{
			Head: []string{"EVAL", read, "2"}, Keys: []string{Key, Ends}, Args: []string{strconv.Itoa(first), strconv.Itoa(first + page - 1)},
		})
		if err != nil {
			return err
		}
		if len(items) < 3 || items[0] != strconv.FormatInt(at.Number, 10) || items[1] != at.ID {
			return revision.ErrChanged
		}
		if first == 0 {
			if now, err = strconv.ParseInt(items[2], 10, 64); err != nil {
				return fmt.Errorf("adjustments in %s: time: want a number, got %.40q", Key, items[2])
			}
		}
		for _, text := range items[3:] {
			r, err := Decode(text)
			if err != nil {
				return err
			}
			add(r, now)
		}
		if len(items) < 3+page {
			return nil
		}
	}
}

// Decode reads a Record in JSON as it is in Redis.
func Decode(text string) (r Record, err error) {
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Policy == "" || len(r.State) == 0 {
		return Record{}, fmt.Errorf("adjustment in %s: want JSON with a policy and a key, got %.40q", Key, text)
	}
	return r, nil
}

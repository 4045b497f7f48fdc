package redistest_test

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/redisstore"
)

// handwritten is a minimal token bucket, as users write it for themselves: whole microseconds
// per token, no clock guard, no verbs.
const handwritten = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local T, span, n = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
if tat < now then tat = now end
local new = tat + n * T
local wait = new - span - now
if wait > 0 then
  return {0, math.floor((now + span - tat) / T), wait, tat - now}
end
redis.call('SET', KEYS[1], string.format('%.0f', new), 'PX', math.ceil((new - now) / 1000))
return {1, math.floor((now + span - new) / T), 0, new - now}`

// BenchmarkScript measures the time of Redis itself, from its commandstats, for a Take
// over 1,000 keys, 64 calls per pipeline.
//
//	go test -run '^$' -bench Script -benchtime 300000x -count 5 ./e2e/redistest
func BenchmarkScript(b *testing.B) {
	s := redistest.Start(b)
	rule, err := algo.NewTokenBucket(1000, 1_000_000, 1_000_000)
	if err != nil {
		b.Fatal(err)
	}
	odd, err := algo.NewTokenBucket(999, 1_000_000, 1_000_000)
	if err != nil {
		b.Fatal(err)
	}
	empty, err := algo.NewTokenBucket(1, 1_000_000_000_000, 1)
	if err != nil {
		b.Fatal(err)
	}
	takes := func(n int, numbers ...int64) []any {
		b := []byte(pack(0, 0))
		rules := 20 + 18*n + 1
		b = binary.LittleEndian.AppendUint32(b, uint32(rules))
		for i := range n {
			b = append(b, 0, 0, 1, 0, byte(i+1), 0, byte(rules), byte(rules>>8), 0, 0)
			b = append(b, pack(1)...)
		}
		return []any{string(b) + pack(numbers...) + "]\x00"}
	}
	take := func(r algo.Rule) []any {
		return []any{pack(0, 0, 0, 1, 2, 0, 1, 0), ruleName(r), pack(append(r.Params(0), algo.Refill(r))...)}
	}
	for _, c := range []struct {
		name, script string
		args         []any
		batch        int
	}{
		{"handwritten", handwritten, []any{1000, 1_000_000_000, 1}, 1},
		{"weir", redisstore.Script(), take(rule), 1},
		{"weir-999", redisstore.Script(), take(odd), 1},
		{"handwritten-denied", handwritten, []any{1_000_000_000_000, 1_000_000_000_000, 1}, 1},
		{"weir-denied", redisstore.Script(), take(empty), 1},
		{"weir-128", redisstore.Script(), nil, 128},
		{"takes", redisstore.Script(), takes(1, 1, 1000, 0, 1_000_000_000, 0), 1},
		{"takes-32", redisstore.Script(), takes(32, 1, 1000, 0, 1_000_000_000, 0), 32},
		{"takes-window-32", redisstore.Script(), takes(32, 0, 1_000_000, 86_400_000_000, 1, 0), 32},
	} {
		b.Run(c.name, func(b *testing.B) {
			conn, err := redistest.Dial(s.Addr)
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			sha, err := conn.Do("SCRIPT", "LOAD", c.script)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := conn.Do("CONFIG", "RESETSTAT"); err != nil {
				b.Fatal(err)
			}
			for sent := 0; sent < b.N; {
				calls := 0
				for ; calls < 64 && sent < b.N; calls++ {
					if c.batch == 1 {
						conn.Send(append([]any{"EVALSHA", sha, 1, c.name + strconv.Itoa(sent%1000)}, c.args...)...)
						sent++
						continue
					}
					if c.args != nil {
						keys := []any{}
						for range c.batch {
							keys = append(keys, c.name+strconv.Itoa(sent%1000))
							sent++
						}
						conn.Send(append(append([]any{"EVALSHA", sha, c.batch}, keys...), c.args...)...)
						continue
					}
					keys, args := []any{}, []int64{0, 0, 0}
					for i := range c.batch {
						keys = append(keys, c.name+strconv.Itoa(sent%1000))
						args = append(args, int64(i+1), 2, 0, 1, 0)
						sent++
					}
					conn.Send(append(append([]any{"EVALSHA", sha, c.batch}, keys...), pack(args...), take(rule)[1], take(rule)[2])...)
				}
				if err := conn.Flush(); err != nil {
					b.Fatal(err)
				}
				for range calls {
					if v, err := conn.Receive(); err != nil {
						b.Fatal(err)
					} else if e, ok := v.(redistest.Error); ok {
						b.Fatal(e)
					}
				}
			}
			b.ReportMetric(usec(b, conn)*1000/float64(b.N), "redis-ns/decision")
		})
	}
}

// usec returns the time that Redis spent in EVALSHA, in µs.
func usec(b *testing.B, c *redistest.Conn) float64 {
	v, err := c.Do("INFO", "commandstats")
	if err != nil {
		b.Fatal(err)
	}
	m := regexp.MustCompile(`cmdstat_evalsha:calls=\d+,usec=(\d+)`).FindStringSubmatch(fmt.Sprint(v))
	if m == nil {
		b.Fatalf("no EVALSHA in %v", v)
	}
	us, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return us
}

package lab

import (
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// takeOne takes a unit if one is left: check and change are one step.
//
// KEYS[1] the stock. Returns 1 if a unit was taken, else 0.
var takeOne = sync.OnceValue(func() script {
	return script{
		lua: rueidis.NewLuaScript(`
local left = tonumber(redis.call('GET', KEYS[1]) or '0')
if left <= 0 then return 0 end
redis.call('DECR', KEYS[1])
return 1`),
		twin: func(m *memory, keys []string, _ []any) int64 {
			v, _ := m.live(keys[0])
			if v.n <= 0 {
				return 0
			}
			v.n--
			m.values[keys[0]] = v
			return 1
		},
	}
})

// lockFenced takes the lock and returns the next fence.
//
// KEYS[1] the lock, KEYS[2] the fence. ARGV[1] the owner, ARGV[2] the lock's expiry and ARGV[3]
// the fence's, in milliseconds. Returns the fence, or 0.
var lockFenced = sync.OnceValue(func() script {
	return script{
		lua: rueidis.NewLuaScript(`
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
local fence = redis.call('INCR', KEYS[2])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return fence`),
		twin: func(m *memory, keys []string, args []any) int64 {
			if _, held := m.live(keys[0]); held {
				return 0
			}
			ttl := time.Duration(args[1].(int64)) * time.Millisecond
			m.values[keys[0]] = value{owner: args[0].(string), until: time.Now().Add(ttl)}
			v := m.values[keys[1]]
			v.n++
			m.values[keys[1]] = v
			return v.n
		},
	}
})

// readFenced reads the stock and records the reader's fence. A check only when writing would not
// suffice: of two readers of the same stock, the older one could write first.
//
// KEYS[1] the stock, KEYS[2] the largest fence seen. ARGV[1] the fence, ARGV[2] its expiry in
// milliseconds. Returns the stock, or -1 if a later holder has read it.
var readFenced = sync.OnceValue(func() script {
	return script{
		lua: rueidis.NewLuaScript(`
if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[2]) or '0') then return -1 end
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
return tonumber(redis.call('GET', KEYS[1]) or '0')`),
		twin: func(m *memory, keys []string, args []any) int64 {
			if args[0].(int64) < m.values[keys[1]].n {
				return -1
			}
			m.values[keys[1]] = value{n: args[0].(int64)}
			return m.values[keys[0]].n
		},
	}
})

// writeFenced writes the stock unless a later holder has read it.
//
// KEYS[1] the stock, KEYS[2] the largest fence seen. ARGV[1] the fence, ARGV[2] the stock,
// ARGV[3] its expiry in milliseconds. Returns 1 if it was written, else 0.
var writeFenced = sync.OnceValue(func() script {
	return script{
		lua: rueidis.NewLuaScript(`
if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[2]) or '0') then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`),
		twin: func(m *memory, keys []string, args []any) int64 {
			if args[0].(int64) < m.values[keys[1]].n {
				return 0
			}
			m.values[keys[0]] = value{n: args[1].(int64)}
			return 1
		},
	}
})

// unlock deletes a lock that the owner still holds.
//
// KEYS[1] the lock. ARGV[1] the owner. Returns 1 if it was deleted, else 0.
var unlock = sync.OnceValue(func() script {
	return script{
		lua: rueidis.NewLuaScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`),
		twin: func(m *memory, keys []string, args []any) int64 {
			if v, held := m.live(keys[0]); !held || v.owner != args[0].(string) {
				return 0
			}
			delete(m.values, keys[0])
			return 1
		},
	}
})

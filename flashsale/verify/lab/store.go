package lab

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// keep is the expiry of a run's keys in Redis.
const keep = 10 * time.Minute

// A store has the Redis operations that the designs need. Each is atomic.
type store interface {
	set(ctx context.Context, key string, value int64) error
	get(ctx context.Context, key string) (int64, error)                            // 0 if there is none
	lock(ctx context.Context, key, owner string, ttl time.Duration) (bool, error)  // SET NX PX
	del(ctx context.Context, keys ...string) error                                 //
	eval(ctx context.Context, s script, keys []string, args ...any) (int64, error) //
}

// A script is an atomic step of several commands: in Lua for Redis, and in Go for the memory
// store.
type script struct {
	lua  *rueidis.Lua
	twin func(m *memory, keys []string, args []any) int64
}

// memory is a store in this process. Its keys expire as in Redis.
type memory struct {
	mu     sync.Mutex
	values map[string]value
}

type value struct {
	n     int64
	owner string
	until time.Time // zero: never
}

func newMemory() *memory { return &memory{values: map[string]value{}} }

// live returns the value of a key that has not expired. It requires mu.
func (m *memory) live(key string) (value, bool) {
	v, ok := m.values[key]
	if ok && !v.until.IsZero() && !time.Now().Before(v.until) {
		delete(m.values, key)
		return value{}, false
	}
	return v, ok
}

func (m *memory) set(_ context.Context, key string, n int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[key] = value{n: n}
	return nil
}

func (m *memory) get(_ context.Context, key string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, _ := m.live(key)
	return v.n, nil
}

func (m *memory) lock(_ context.Context, key, owner string, ttl time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, held := m.live(key); held {
		return false, nil
	}
	m.values[key] = value{owner: owner, until: time.Now().Add(ttl)}
	return true, nil
}

func (m *memory) del(_ context.Context, keys ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range keys {
		delete(m.values, k)
	}
	return nil
}

func (m *memory) eval(_ context.Context, s script, keys []string, args ...any) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return s.twin(m, keys, args), nil
}

// remote is a store in Redis.
type remote struct{ c rueidis.Client }

func (r remote) set(ctx context.Context, key string, n int64) error {
	return r.c.Do(ctx, r.c.B().Set().Key(key).Value(strconv.FormatInt(n, 10)).Ex(keep).Build()).Error()
}

func (r remote) get(ctx context.Context, key string) (int64, error) {
	n, err := r.c.Do(ctx, r.c.B().Get().Key(key).Build()).AsInt64()
	if rueidis.IsRedisNil(err) {
		return 0, nil
	}
	return n, err
}

func (r remote) lock(ctx context.Context, key, owner string, ttl time.Duration) (bool, error) {
	err := r.c.Do(ctx, r.c.B().Set().Key(key).Value(owner).Nx().Px(ttl).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	return err == nil, err
}

func (r remote) del(ctx context.Context, keys ...string) error {
	for _, k := range keys { // one by one: they may be in several slots of a cluster
		if err := r.c.Do(ctx, r.c.B().Del().Key(k).Build()).Error(); err != nil {
			return err
		}
	}
	return nil
}

func (r remote) eval(ctx context.Context, s script, keys []string, args ...any) (int64, error) {
	words := make([]string, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case string:
			words[i] = a
		case int64:
			words[i] = strconv.FormatInt(a, 10)
		}
	}
	return s.lua.Exec(ctx, r.c, keys, words).AsInt64()
}

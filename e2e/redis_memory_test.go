package e2e_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/redisstore"
)

// memoryRow is a row of the table of docs/redis.md: a limit, the admissions of each key, and the
// bytes of a key.
var memoryRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([0-9,]+) \\| ([0-9,]+) \\| ([0-9,]+) \\|$")

// TestRedisMemory measures the memory per key of docs/redis.md: that of MEMORY USAGE, and that of
// used_memory, which includes Redis's tables.
func TestRedisMemory(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := memoryRow.FindAllStringSubmatch(string(page), -1)
	if len(rows) < 7 {
		t.Fatalf("the table has %d rows, want one for each algorithm", len(rows))
	}
	for _, row := range rows {
		n := func(i int) int {
			v, err := strconv.Atoi(strings.ReplaceAll(row[i], ",", ""))
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		admissions, wantKey, wantAll := n(2), n(3), n(4)
		key, all := memoryPerKey(t, row[1], admissions)
		for _, m := range []struct {
			what      string
			got, want int
		}{{"MEMORY USAGE", key, wantKey}, {"used_memory", all, wantAll}} {
			if m.got < m.want*85/100 || m.got > m.want*115/100 {
				t.Errorf("%s with %d admissions: %s is %d bytes per key, the page says %d", row[1], admissions, m.what, m.got, m.want)
			}
		}
	}
}

// memoryPerKey returns the mean MEMORY USAGE of keys with admissions of a limit, and the growth
// of used_memory.
func memoryPerKey(t *testing.T, limit string, admissions int) (usage, used int) {
	t.Helper()
	const keys, sample = 1024, 64 // Redis's tables have a power of two of places, so they are full
	s := redistest.Start(t)
	store := newRedisStore(t, openConn(t, "rueidis", "redis://"+s.Addr), redisstore.Config{})
	l := weir.MustLimit(limit)
	admit := func(key string) {
		for i := range admissions {
			r := weir.Request{Key: key, Limit: l, N: 1}
			if l.IsConcurrency() {
				r.Verb, r.ID, r.TTL = weir.Reserve, fmt.Sprintf("%s/%016d", key, i), time.Minute
			}
			if d, err := store.Do(t.Context(), r); err != nil || !d.OK {
				t.Fatalf("%s: %+v, %v", limit, d, err)
			}
		}
	}
	admit("warm-up")
	before := usedMemory(t, s)
	for i := range keys {
		admit(fmt.Sprintf("user:%06d", i))
	}
	used = (usedMemory(t, s) - before) / keys
	conn, err := redistest.Dial(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i := range sample { // a concurrency limit has two
		names, err := conn.Do("KEYS", fmt.Sprintf("*user:%06d*", i))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names.([]any) {
			n, err := conn.Do("MEMORY", "USAGE", name, "SAMPLES", "0")
			if err != nil {
				t.Fatal(err)
			}
			usage += int(n.(int64))
		}
	}
	return usage / sample, used
}

func usedMemory(t *testing.T, s *redistest.Server) int {
	t.Helper()
	m := regexp.MustCompile(`used_memory:(\d+)`).FindStringSubmatch(s.Do(t, "INFO", "memory").(string))
	if m == nil {
		t.Fatal("INFO has no used_memory")
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

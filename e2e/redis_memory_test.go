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
var memoryRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([0-9,]+) \\| ([0-9,]+) \\|$")

// TestRedisMemory measures the memory per key of docs/redis.md.
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
		admissions, want := n(2), n(3)
		if got := memoryPerKey(t, row[1], admissions); got < want*85/100 || got > want*115/100 {
			t.Errorf("%s with %d admissions: MEMORY USAGE is %d bytes per key, the page says %d", row[1], admissions, got, want)
		}
	}
}

// memoryPerKey returns the mean MEMORY USAGE of keys with admissions of a limit.
func memoryPerKey(t *testing.T, limit string, admissions int) int {
	t.Helper()
	const keys = 20
	s := redistest.Start(t)
	store := newRedisStore(t, openConn(t, "rueidis", "redis://"+s.Addr), redisstore.Config{})
	l := weir.MustLimit(limit)
	for k := range keys {
		key := fmt.Sprintf("user:%06d", k)
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
	conn, err := redistest.Dial(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	names, err := conn.Do("KEYS", "*")
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, name := range names.([]any) {
		n, err := conn.Do("MEMORY", "USAGE", name, "SAMPLES", "0")
		if err != nil {
			t.Fatal(err)
		}
		sum += int(n.(int64))
	}
	return sum / keys
}

package redisinventory

import (
	"slices"
	"testing"
)

func TestWeaknesses(t *testing.T) {
	const (
		lossy    = "appendonly is no: a crash of Redis loses acknowledged reservations; set appendonly yes, and appendfsync always to lose none."
		evicting = "maxmemory-policy is allkeys-lru: with a full memory Redis deletes states of sales; set it to noeviction."
	)
	for _, c := range []struct {
		info string
		want []string
	}{
		{"# Persistence\r\naof_enabled:1\r\nmaxmemory_policy:noeviction\r\nrole:master\r\n", nil},
		{"aof_enabled:0\r\nmaxmemory_policy:noeviction\r\nrole:master\r\n", []string{lossy}},
		{"aof_enabled:0\r\nmaxmemory_policy:allkeys-lru\r\nrole:master\r\n", []string{lossy, evicting}},
		{"aof_enabled:0\r\nmaxmemory_policy:allkeys-lru\r\nrole:slave\r\n", nil},
		{"", nil}, // a server that reports nothing
	} {
		if got := weaknesses(c.info); !slices.Equal(got, c.want) {
			t.Errorf("weaknesses(%q) = %q, want %q", c.info, got, c.want)
		}
	}
}

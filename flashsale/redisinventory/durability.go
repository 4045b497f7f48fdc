package redisinventory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Warnings returns the settings of the servers with which a crash or a full memory loses
// acknowledged reservations, one sentence each with the change to make. It returns none for a
// server that does not report its settings. An error means that a server did not reply in 3 s.
func Warnings(ctx context.Context, client rueidis.Client) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	var all []string
	for addr, node := range client.Nodes() {
		b := node.B()
		info := ""
		for _, section := range []string{"persistence", "memory", "replication"} {
			text, err := node.Do(ctx, b.Info().Section(section).Build()).ToString()
			if err != nil {
				return nil, fmt.Errorf("redisinventory: settings of %s: %w", addr, err)
			}
			info += text
		}
		for _, w := range weaknesses(info) {
			all = append(all, addr+": "+w)
		}
	}
	slices.Sort(all)
	return all, nil
}

// weaknesses returns the warnings about a server by its reply to INFO. A replica has none,
// because its primary is asked too.
func weaknesses(info string) []string {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	if fields["role"] == "slave" {
		return nil
	}
	var all []string
	if fields["aof_enabled"] == "0" {
		all = append(all, "appendonly is no: a crash of Redis loses acknowledged reservations; set appendonly yes, and appendfsync always to lose none.")
	}
	if p := fields["maxmemory_policy"]; p != "" && p != "noeviction" {
		all = append(all, "maxmemory-policy is "+p+": with a full memory Redis deletes states of sales; set it to noeviction.")
	}
	return all
}

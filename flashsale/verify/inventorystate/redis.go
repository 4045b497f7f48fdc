// Package inventorystate reads the state of a sale in Redis without the code of the shop.
package inventorystate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// State is the state of a sale in its inventory.
type State struct {
	Epoch       int64
	Stock       int64
	Free        int64
	Outstanding int64    // admission tokens that are valid and unused
	Backlog     int64    // entries in its stream
	Held        []string // Held of the reservations that have units; nil if unknown
	Workers     int      // consumers of its stream; 0 if unknown
}

// Held names a reservation with its units, if they are several.
func Held(id string, units int64) string {
	if units == 1 {
		return id
	}
	return fmt.Sprintf("%s of %d units", id, units)
}

// ErrNone says that an inventory has no state of the sale.
var ErrNone = errors.New("no inventory")

// Read reads the inventory of a sale in one transaction of plain commands. With held it also
// reads the reservations. It reads the clock last, so that no state is newer than it.
func Read(ctx context.Context, client rueidis.Client, prefix, sale string, held bool) (State, error) {
	key := func(name string) string { return prefix + "{" + sale + "}:" + name }
	var g State
	err := client.Dedicated(func(c rueidis.DedicatedClient) error {
		b := c.B()
		commands := rueidis.Commands{
			b.Multi().Build(),
			b.Hmget().Key(key("state")).Field("epoch", "closed", "stock", "free", "reserved").Build(),
			b.Zrange().Key(key("out")).Min("0").Max("-1").Withscores().Build(),
			b.Xlen().Key(key("stream")).Build(),
			b.Time().Build(),
		}
		if held {
			commands = append(commands, b.Hgetall().Key(key("res")).Build())
		}
		replies := c.DoMulti(ctx, append(commands, b.Exec().Build())...)
		for _, r := range replies[:len(replies)-1] {
			if err := r.Error(); err != nil {
				return err
			}
		}
		parts, err := replies[len(replies)-1].ToArray()
		if err != nil {
			return err
		}
		g, err = parse(parts, held)
		return err
	})
	if err != nil && !errors.Is(err, ErrNone) {
		err = fmt.Errorf("redis: inventory of %s: %w", sale, err)
	}
	return g, err
}

func parse(parts []rueidis.RedisMessage, held bool) (State, error) {
	if len(parts) < 4 || held && len(parts) < 5 {
		return State{}, fmt.Errorf("got %d replies in a transaction, want 4 or 5", len(parts))
	}
	state, err := parts[0].AsStrSlice() // a missing field is empty
	if err != nil {
		return State{}, err
	}
	if state[0] == "" || state[1] != "0" {
		return State{}, ErrNone
	}
	var g State
	var reserved int64
	for i, to := range map[int]*int64{0: &g.Epoch, 2: &g.Stock, 3: &g.Free, 4: &reserved} {
		if *to, err = strconv.ParseInt(state[i], 10, 64); err != nil {
			return State{}, fmt.Errorf("state: %w", err)
		}
	}
	out, err := parts[1].AsZScores()
	if err != nil {
		return State{}, err
	}
	if g.Backlog, err = parts[2].AsInt64(); err != nil {
		return State{}, err
	}
	clock, err := parts[3].AsStrSlice()
	if err != nil || len(clock) != 2 {
		return State{}, errors.Join(err, errors.New("time: want seconds and microseconds"))
	}
	sec, _ := strconv.ParseInt(clock[0], 10, 64)
	micro, _ := strconv.ParseInt(clock[1], 10, 64)
	now := float64(sec*1000 + micro/1000)
	for _, z := range out {
		if z.Member != "" && z.Score > now { // the empty member keeps the key alive
			g.Outstanding++
		}
	}
	if !held {
		return g, nil
	}
	res, err := parts[4].AsStrMap()
	if err != nil {
		return State{}, err
	}
	g.Held = []string{}
	units := int64(0)
	for id, record := range res {
		if id == "" || !strings.HasPrefix(record, "h ") {
			continue
		}
		quantity := int64(1)
		slot, _, _ := strings.Cut(record[2:], " ")
		if _, many, ok := strings.Cut(slot, "/"); ok {
			if quantity, err = strconv.ParseInt(many, 10, 64); err != nil {
				return State{}, fmt.Errorf("reservation %s: %w", id, err)
			}
		}
		g.Held = append(g.Held, Held(id, quantity))
		units += quantity
	}
	slices.Sort(g.Held)
	if units != reserved {
		return g, fmt.Errorf("reserved is %d, the reservations have %d units", reserved, units)
	}
	return g, nil
}

package auditor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// errNoGate: there is no gate, or no state in it.
var errNoGate = errors.New("no gate")

// gate reads the inventory of a sale; with held, which reservations it holds too.
func (a *Auditor) gate(ctx context.Context, s *saleRow, held bool) (GateState, error) {
	switch {
	case a.config.Gate != nil:
		return a.config.Gate(ctx, s.id, s.epoch)
	case a.config.Redis != nil:
		return readGate(ctx, a.config.Redis, a.config.Prefix, s.id, held)
	}
	return GateState{}, errNoGate
}

// readGate reads an inventory in one transaction of plain commands. The clock is read last, so
// that nothing that was written before is newer.
func readGate(ctx context.Context, client rueidis.Client, prefix, sale string, held bool) (GateState, error) {
	key := func(name string) string { return prefix + "{" + sale + "}:" + name }
	var g GateState
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
		g, err = gateOf(parts, held)
		return err
	})
	if err != nil && !errors.Is(err, errNoGate) {
		err = fmt.Errorf("redis: gate of %s: %w", sale, err)
	}
	return g, err
}

func gateOf(parts []rueidis.RedisMessage, held bool) (GateState, error) {
	if len(parts) < 4 || held && len(parts) < 5 {
		return GateState{}, fmt.Errorf("%d replies in a transaction, expected 4 or 5", len(parts))
	}
	state, err := parts[0].AsStrSlice() // a field that is not there is empty
	if err != nil {
		return GateState{}, err
	}
	if state[0] == "" || state[1] != "0" {
		return GateState{}, errNoGate
	}
	var g GateState
	var reserved int64
	for i, to := range map[int]*int64{0: &g.Epoch, 2: &g.Stock, 3: &g.Free, 4: &reserved} {
		if *to, err = strconv.ParseInt(state[i], 10, 64); err != nil {
			return GateState{}, fmt.Errorf("state: %w", err)
		}
	}
	out, err := parts[1].AsZScores()
	if err != nil {
		return GateState{}, err
	}
	if g.Backlog, err = parts[2].AsInt64(); err != nil {
		return GateState{}, err
	}
	clock, err := parts[3].AsStrSlice()
	if err != nil || len(clock) != 2 {
		return GateState{}, errors.Join(err, errors.New("time: expected seconds and microseconds"))
	}
	sec, _ := strconv.ParseInt(clock[0], 10, 64)
	micro, _ := strconv.ParseInt(clock[1], 10, 64)
	now := float64(sec*1000 + micro/1000)
	for _, z := range out {
		if z.Member != "" && z.Score > now { // the empty member keeps the key there
			g.Outstanding++
		}
	}
	if !held {
		return g, nil
	}
	res, err := parts[4].AsStrMap()
	if err != nil {
		return GateState{}, err
	}
	g.Held = []string{}
	for id, record := range res {
		if id != "" && strings.HasPrefix(record, "h ") {
			g.Held = append(g.Held, id)
		}
	}
	slices.Sort(g.Held)
	if int64(len(g.Held)) != reserved {
		return g, fmt.Errorf("it says that %d are reserved, and holds %d", reserved, len(g.Held))
	}
	return g, nil
}

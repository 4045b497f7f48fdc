package redisinventory

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

const (
	chunk    = 200                // reservations that one call adds while a state is built
	building = 10 * time.Minute   // lifetime of a state that was not completed
	keeping  = 7 * 24 * time.Hour // lifetime of a state after the end of its sale
)

// ErrEvicts is wrapped by the error of Open for a server that may evict keys, and so could lose
// the state of a sale at any time. It wraps no error of package sale, because a retry does not
// help.
var ErrEvicts = errors.New("redisinventory: the server may evict keys")

// Open implements sale.Inventory. It builds a large state in steps, which is visible after the
// last one. If the server changes meanwhile, it returns sale.ErrUnavailable: call Open again.
func (g *Inventory) Open(ctx context.Context, o sale.InitialState) error {
	if err := o.Validate(); err != nil {
		return err
	}
	id, epoch := o.Sale.ID, o.Sale.Epoch
	if o.Sale.Stock > 1<<53 || epoch > 1<<53 || o.Sale.StartsAt.UnixMilli() < 0 {
		return fmt.Errorf("redisinventory: open: stock %d, epoch %d, start %v, want at most 2^53, and a start after 1970: %w", o.Sale.Stock, epoch, o.Sale.StartsAt, sale.ErrInvalid)
	}
	keys := g.states.parts(id)
	words, err := g.call(ctx, &g.scripts.begin, keys, []string{itoa(epoch), g.clock(), itoa(g.states.seen(id))})
	if err != nil {
		if errors.Is(err, errDamaged) {
			g.forsake(ctx, id, epoch)
		}
		return err
	}
	switch {
	case words[0] == "stale" && len(words) == 2:
		return g.states.lost("open", id, epoch, words[1])
	case words[0] == "here":
		return finished(g, id, epoch, words)
	case words[0] != "ok" || len(words) != 5:
		return g.failed("open", errReply)
	}
	server, policy, limit := words[2], words[3], words[4]
	if limit != "0" && policy != "" && policy != "noeviction" {
		return fmt.Errorf("%w: maxmemory-policy is %s, want noeviction", ErrEvicts, policy)
	}
	fresh := make([]string, len(keys))
	for i, k := range keys {
		fresh[i] = k + ":new:" + rand.Text()
	}
	if err := g.build(ctx, &o, server, fresh); err != nil {
		return err
	}
	s := &o.Sale
	words, err = g.call(ctx, &g.scripts.open, append(keys, fresh...), []string{
		itoa(epoch), g.clock(), itoa(g.states.seen(id)), server, itoa(keeping.Milliseconds()),
		strconv.Itoa(len(o.Reserved) + len(o.Pending)), strconv.Itoa(len(o.Pending)), group(epoch),
		flag(s.State == sale.Paused), itoa(s.Stock),
		itoa(s.StartsAt.UnixMilli()), itoa(s.EndsAt.UnixMilli()), itoa(s.Lobby.Milliseconds()),
		flag(s.Queue == sale.Shuffled), strconv.Itoa(s.PerUser), itoa(s.PayWithin.Milliseconds()),
		strconv.Itoa(s.Headroom), itoa(s.TokenFor.Milliseconds()), itoa(s.Paid), itoa(s.Version), itoa(o.Units()),
	})
	switch {
	case err != nil:
		return err
	case words[0] == "stale" && len(words) == 2:
		return g.states.lost("open", id, epoch, words[1])
	case words[0] == "unread" && len(words) == 2:
		return fmt.Errorf("redisinventory: open: sale %q, epoch %d: %s entries are in the stream of an earlier epoch, want none: %w", id, epoch, words[1], sale.ErrConflict)
	case words[0] == "moved":
		return fmt.Errorf("redisinventory: open: %w: the server changed while the state was built", sale.ErrUnavailable)
	}
	return finished(g, id, epoch, words)
}

// finished records that there is a state.
func finished(g *Inventory, id string, epoch int64, words []string) error {
	if len(words) != 2 {
		return g.failed("open", errReply)
	}
	now, err := numbers(words[1])
	if err != nil {
		return g.failed("open", err)
	}
	g.states.opened(id, epoch, now[0])
	return nil
}

// build adds the reservations of an InitialState to a state that is being built.
func (g *Inventory) build(ctx context.Context, o *sale.InitialState, server string, fresh []string) error {
	keys := []string{fresh[1], fresh[4], fresh[5], fresh[6]} // users, res, done, stream
	head := []string{server, itoa(building.Milliseconds())}
	args := head
	send := func() error {
		words, err := g.call(ctx, &g.scripts.build, keys, args)
		if err != nil {
			return err
		}
		if words[0] != "ok" {
			return fmt.Errorf("redisinventory: open: %w: the server changed while the state was built", sale.ErrUnavailable)
		}
		args = head[:2:2]
		return nil
	}
	for i, rs := range [][]sale.Reservation{o.Reserved, o.Pending} {
		for j := range rs {
			r := &rs[j]
			args = append(args, flag(i == 1), r.ID, escape(r.User), r.Ticket, escape(r.Key), record(r))
			if len(args) >= 2+6*chunk {
				if err := send(); err != nil {
					return err
				}
			}
		}
	}
	for user, n := range o.Unpaid {
		args = append(args, "u", strconv.Itoa(n), escape(user), "", "", "")
		if len(args) >= 2+6*chunk {
			if err := send(); err != nil {
				return err
			}
		}
	}
	if len(args) > 2 {
		return send()
	}
	return nil
}

// Close implements sale.Inventory.
func (g *Inventory) Close(ctx context.Context, id string, epoch int64) error {
	if !possible(id, epoch) {
		return nil
	}
	_, err := g.call(ctx, &g.scripts.close, g.states.parts(id), []string{itoa(epoch)})
	if err == nil {
		g.states.lost("close", id, epoch, "closed")
	}
	return err
}

// Delete implements sale.Inventory.
func (g *Inventory) Delete(ctx context.Context, id string, epoch int64) error {
	if !possible(id, epoch) {
		return staleError("drop", id, epoch, "none")
	}
	words, err := g.call(ctx, &g.scripts.drop, g.states.parts(id), []string{itoa(epoch)})
	switch {
	case err != nil:
		return err
	case words[0] == "stale" && len(words) == 2:
		return g.states.lost("drop", id, epoch, words[1])
	case len(words) != 3:
		return g.failed("drop", errReply)
	case words[2] != "0":
		return fmt.Errorf("redisinventory: drop: sale %q, epoch %d: %s entries are in its stream, want none: %w", id, epoch, words[2], sale.ErrConflict)
	}
	g.states.forget(id)
	return nil
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

package meminventory

import (
	"context"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// maxBatch is the most that Admit admits and Next returns at once.
const maxBatch = 1000

// Open implements sale.Inventory. If the Journal has entries of this epoch that o does not know,
// an earlier process had it, and it is sale.ErrStale.
func (e *Inventory) Open(ctx context.Context, o sale.InitialState) error {
	if err := o.Validate(); err != nil {
		return err
	}
	c := e.cmds.get(opOpen, o.Sale.Epoch)
	c.opening = &o
	return e.do(ctx, o.Sale.ID, c)
}

// do sends a command of which only the error is of interest.
func (e *Inventory) do(ctx context.Context, id string, c *command) error {
	answered, err := e.send(ctx, id, c)
	if answered {
		e.cmds.put(c)
	}
	return err
}

// Close implements sale.Inventory.
func (e *Inventory) Close(ctx context.Context, id string, epoch int64) error {
	err := e.do(ctx, id, e.cmds.get(opClose, epoch))
	if isStale(err) {
		return nil
	}
	return err
}

// SetPaused implements sale.Inventory.
func (e *Inventory) SetPaused(ctx context.Context, id string, epoch int64, paused bool) error {
	c := e.cmds.get(opPause, epoch)
	c.flag = paused
	return e.do(ctx, id, c)
}

// SetStock implements sale.Inventory.
func (e *Inventory) SetStock(ctx context.Context, id string, epoch int64, stock int64) error {
	if stock < 0 {
		return invalid("stock", stock, "0 or more")
	}
	c := e.cmds.get(opStock, epoch)
	c.n = stock
	return e.do(ctx, id, c)
}

// SetPaid implements sale.Inventory.
func (e *Inventory) SetPaid(ctx context.Context, id string, epoch int64, paid int64) error {
	if paid < 0 || paid > 1<<53 {
		return invalid("paid", paid, "0 to 2^53")
	}
	c := e.cmds.get(opPaid, epoch)
	c.n = paid
	return e.do(ctx, id, c)
}

// Join implements sale.Inventory.
func (e *Inventory) Join(ctx context.Context, j sale.JoinRequest) (sale.TicketStatus, error) {
	if err := j.Validate(); err != nil {
		return sale.TicketStatus{}, err
	}
	c := e.cmds.get(opJoin, j.Epoch)
	c.join = j
	return e.standing(ctx, j.Sale, c)
}

// Look implements sale.Inventory.
func (e *Inventory) Status(ctx context.Context, id string, epoch int64, user string) (sale.TicketStatus, error) {
	c := e.cmds.get(opLook, epoch)
	c.user = user
	return e.standing(ctx, id, c)
}

func (e *Inventory) standing(ctx context.Context, id string, c *command) (st sale.TicketStatus, err error) {
	answered, err := e.send(ctx, id, c)
	if answered {
		if err == nil {
			st = c.standing
		}
		e.cmds.put(c)
	}
	return st, err
}

// Admit implements sale.Inventory.
func (e *Inventory) Admit(ctx context.Context, id string, epoch int64, batch string, n int, until time.Time) (int, error) {
	if n < 1 || n > maxBatch {
		return 0, invalid("n", n, "1 to 1,000")
	}
	if batch == "" || len(batch) > 64 {
		return 0, invalid("batch", batch, "1 to 64 bytes")
	}
	c := e.cmds.get(opAdmit, epoch)
	c.id, c.n, c.until = batch, int64(n), until
	answered, err := e.send(ctx, id, c)
	n = 0
	if answered {
		if err == nil {
			n = c.number
		}
		e.cmds.put(c)
	}
	return n, err
}

// Reserve implements sale.Inventory.
func (e *Inventory) Reserve(ctx context.Context, a sale.ReserveRequest) (o sale.ReserveResult, err error) {
	if err := a.Validate(); err != nil {
		return o, err
	}
	c := e.cmds.get(opReserve, a.Epoch)
	c.ask = a
	answered, err := e.send(ctx, a.Sale, c)
	if answered {
		if err == nil {
			o = c.outcome
		}
		e.cmds.put(c)
	}
	return o, err
}

// Return implements sale.Inventory.
func (e *Inventory) Return(ctx context.Context, id string, epoch int64, user, reservation string) (yes bool, err error) {
	c := e.cmds.get(opReturn, epoch)
	c.user, c.id = user, reservation
	answered, err := e.send(ctx, id, c)
	if answered {
		yes = err == nil && c.yes
		e.cmds.put(c)
	}
	return yes, err
}

// Count implements sale.Inventory.
func (e *Inventory) Counts(ctx context.Context, id string, epoch int64) (n sale.Counts, err error) {
	c := e.cmds.get(opCount, epoch)
	answered, err := e.send(ctx, id, c)
	if answered {
		if err == nil {
			n = c.counts
		}
		e.cmds.put(c)
	}
	return n, err
}

// Next implements sale.Inventory. Of an epoch that this process does not know it returns what
// the Journal has.
func (e *Inventory) Next(ctx context.Context, id string, epoch int64, worker string, max int, wait time.Duration) ([]sale.Entry, error) {
	if !sale.IsWorkerName(worker) {
		return nil, invalid("worker", worker, "1 to 64 letters, digits, . _ -")
	}
	if max < 1 || max > maxBatch {
		return nil, invalid("max", max, "1 to 1,000")
	}
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	// What a worker does not finish becomes due by the clock, which wakes nobody.
	poll := time.NewTicker(min(e.cfg.Redeliver/4+time.Millisecond, time.Second/4))
	defer poll.Stop()
	for {
		es, wake, err := e.next(ctx, id, epoch, max)
		if isStale(err) {
			if err = e.adopt(ctx, id, epoch, err); err == nil {
				continue
			}
		}
		if err != nil || len(es) > 0 || wait <= 0 {
			return es, err
		}
		select {
		case <-wake:
		case <-poll.C:
		case <-timeout.C:
			return nil, nil
		case <-ctx.Done():
			return nil, unavailable("waiting for entries of", id, context.Cause(ctx))
		case <-e.ctx.Done():
			return nil, errStopped
		}
	}
}

func (e *Inventory) next(ctx context.Context, id string, epoch int64, max int) (es []sale.Entry, wake <-chan struct{}, err error) {
	c := e.cmds.get(opNext, epoch)
	c.n = int64(max)
	answered, err := e.send(ctx, id, c)
	if answered {
		es, wake = c.out, c.wake
		e.cmds.put(c)
	}
	return es, wake, err
}

// adopt gives the lane of a sale what the Journal has of an epoch that it does not know, or
// returns stale if that is nothing.
func (e *Inventory) adopt(ctx context.Context, id string, epoch int64, stale error) error {
	es, err := e.cfg.Journal.Pending(ctx, id, epoch)
	if err != nil {
		return unavailable("reading the journal", id, err)
	}
	if len(es) == 0 {
		return stale
	}
	c := e.cmds.get(opAdopt, epoch)
	c.entries = es
	return e.do(ctx, id, c)
}

// Done implements sale.Inventory.
func (e *Inventory) Ack(ctx context.Context, id string, epoch int64, ids ...string) error {
	if err := e.do(ctx, id, e.cmds.get(opHas, epoch)); err != nil || len(ids) == 0 {
		return err
	}
	// First the Journal: if that fails, the entries are delivered again, and nothing of
	// them stays on the disk for ever.
	if err := e.cfg.Journal.Remove(ctx, id, ids...); err != nil {
		return unavailable("removing entries of", id, err)
	}
	c := e.cmds.get(opDone, epoch)
	c.ids = ids
	err := e.do(ctx, id, c)
	if isStale(err) {
		return nil // another worker was done with the last of them meanwhile
	}
	return err
}

// Drop implements sale.Inventory.
func (e *Inventory) Delete(ctx context.Context, id string, epoch int64) error {
	return e.do(ctx, id, e.cmds.get(opDrop, epoch))
}

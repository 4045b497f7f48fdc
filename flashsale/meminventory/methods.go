package meminventory

import (
	"context"
	"errors"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// maxBatch bounds what Next returns at once.
const maxBatch = 1000

// Open implements sale.Inventory. If the Journal has entries of this epoch that are not in o, an
// earlier process had the epoch open, and Open returns sale.ErrStale.
func (i *Inventory) Open(ctx context.Context, o sale.InitialState) error {
	if err := o.Validate(); err != nil {
		return err
	}
	c := i.commands.get(opOpen, o.Sale.Epoch)
	c.initial = &o
	return i.sendForError(ctx, o.Sale.ID, c)
}

// sendForError sends a command and returns its error.
func (i *Inventory) sendForError(ctx context.Context, id string, c *command) error {
	answered, err := i.send(ctx, id, c)
	if answered {
		i.commands.put(c)
	}
	return err
}

// Close implements sale.Inventory.
func (i *Inventory) Close(ctx context.Context, id string, epoch int64) error {
	err := i.sendForError(ctx, id, i.commands.get(opClose, epoch))
	if errors.Is(err, sale.ErrStale) {
		return nil
	}
	return err
}

// SetPaused implements sale.Inventory.
func (i *Inventory) SetPaused(ctx context.Context, id string, epoch int64, paused bool) error {
	c := i.commands.get(opPause, epoch)
	c.flag = paused
	return i.sendForError(ctx, id, c)
}

// SetStock implements sale.Inventory.
func (i *Inventory) SetStock(ctx context.Context, id string, epoch int64, stock int64) error {
	if stock < 0 {
		return invalid("stock", stock, "0 or more")
	}
	c := i.commands.get(opStock, epoch)
	c.n = stock
	return i.sendForError(ctx, id, c)
}

// SetTerms implements sale.Inventory.
func (i *Inventory) SetTerms(ctx context.Context, id string, epoch int64, t sale.Terms) error {
	if err := t.Validate(); err != nil {
		return err
	}
	c := i.commands.get(opTerms, epoch)
	c.terms = t
	return i.sendForError(ctx, id, c)
}

// SetPaid implements sale.Inventory.
func (i *Inventory) SetPaid(ctx context.Context, id string, epoch int64, paid int64) error {
	if paid < 0 || paid > 1<<53 {
		return invalid("paid", paid, "0 to 2^53")
	}
	c := i.commands.get(opPaid, epoch)
	c.n = paid
	return i.sendForError(ctx, id, c)
}

// Join implements sale.Inventory.
func (i *Inventory) Join(ctx context.Context, j sale.JoinRequest) (sale.TicketStatus, error) {
	if err := j.Validate(); err != nil {
		return sale.TicketStatus{}, err
	}
	c := i.commands.get(opJoin, j.Epoch)
	c.join = j
	return i.sendForStatus(ctx, j.Sale, c)
}

// Poll implements sale.Inventory.
func (i *Inventory) Poll(ctx context.Context, p sale.PollRequest) (sale.TicketStatus, error) {
	if err := p.Validate(); err != nil {
		return sale.TicketStatus{}, err
	}
	c := i.commands.get(opPoll, p.Epoch)
	c.poll = p
	return i.sendForStatus(ctx, p.Sale, c)
}

// Status implements sale.Inventory.
func (i *Inventory) Status(ctx context.Context, id string, epoch int64, user string) (sale.TicketStatus, error) {
	c := i.commands.get(opStatus, epoch)
	c.user = user
	return i.sendForStatus(ctx, id, c)
}

func (i *Inventory) sendForStatus(ctx context.Context, id string, c *command) (st sale.TicketStatus, err error) {
	answered, err := i.send(ctx, id, c)
	if answered {
		if err == nil {
			st = c.status
		}
		i.commands.put(c)
	}
	return st, err
}

// Reserve implements sale.Inventory.
func (i *Inventory) Reserve(ctx context.Context, a sale.ReserveRequest) (o sale.ReserveResult, err error) {
	if err := a.Validate(); err != nil {
		return o, err
	}
	c := i.commands.get(opReserve, a.Epoch)
	c.reserve = a
	answered, err := i.send(ctx, a.Sale, c)
	if answered {
		if err == nil {
			o = c.result
		}
		i.commands.put(c)
	}
	return o, err
}

// Transfer implements sale.Inventory.
func (i *Inventory) Transfer(ctx context.Context, epoch int64, r sale.Reservation) (bool, error) {
	if err := r.Validate(); err != nil {
		return false, err
	}
	c := i.commands.get(opTransfer, epoch)
	c.transfer = r
	return i.sendForBool(ctx, r.Sale, c)
}

// Return implements sale.Inventory.
func (i *Inventory) Return(ctx context.Context, id string, epoch int64, user, reservation string, unpaid bool) (bool, error) {
	c := i.commands.get(opReturn, epoch)
	c.user, c.id, c.flag = user, reservation, unpaid
	return i.sendForBool(ctx, id, c)
}

func (i *Inventory) sendForBool(ctx context.Context, id string, c *command) (yes bool, err error) {
	answered, err := i.send(ctx, id, c)
	if answered {
		yes = err == nil && c.returned
		i.commands.put(c)
	}
	return yes, err
}

// Counts implements sale.Inventory.
func (i *Inventory) Counts(ctx context.Context, id string, epoch int64) (n sale.Counts, err error) {
	c := i.commands.get(opCounts, epoch)
	answered, err := i.send(ctx, id, c)
	if answered {
		if err == nil {
			n = c.counts
		}
		i.commands.put(c)
	}
	return n, err
}

// Next implements sale.Inventory. For an epoch that this process has not opened it returns the
// entries of the Journal.
func (i *Inventory) Next(ctx context.Context, id string, epoch int64, worker string, max int, wait time.Duration) ([]sale.Entry, error) {
	if !sale.IsWorkerName(worker) {
		return nil, invalid("worker", worker, "1 to 64 letters, digits, . _ -")
	}
	if max < 1 || max > maxBatch {
		return nil, invalid("max", max, "1 to 1,000")
	}
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	// Redelivery depends on the clock, which does not signal wake.
	poll := time.NewTicker(min(i.cfg.Redeliver/4+time.Millisecond, time.Second/4))
	defer poll.Stop()
	for {
		es, wake, err := i.next(ctx, id, epoch, max)
		if errors.Is(err, sale.ErrStale) {
			if err = i.restore(ctx, id, epoch, err); err == nil {
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
		case <-i.ctx.Done():
			return nil, errStopped
		}
	}
}

func (i *Inventory) next(ctx context.Context, id string, epoch int64, max int) (es []sale.Entry, wake <-chan struct{}, err error) {
	c := i.commands.get(opNext, epoch)
	c.n = int64(max)
	answered, err := i.send(ctx, id, c)
	if answered {
		es, wake = c.out, c.wake
		i.commands.put(c)
	}
	return es, wake, err
}

// restore sends the Journal's entries of an epoch to the shard of a sale. It returns stale if
// there are none.
func (i *Inventory) restore(ctx context.Context, id string, epoch int64, stale error) error {
	es, err := i.cfg.Journal.Pending(ctx, id, epoch)
	if err != nil {
		return unavailable("reading the journal", id, err)
	}
	if len(es) == 0 {
		return stale
	}
	c := i.commands.get(opRestore, epoch)
	c.entries = es
	return i.sendForError(ctx, id, c)
}

// Ack implements sale.Inventory.
func (i *Inventory) Ack(ctx context.Context, id string, epoch int64, ids ...string) error {
	if err := i.sendForError(ctx, id, i.commands.get(opHasStream, epoch)); err != nil || len(ids) == 0 {
		return err
	}
	// The Journal comes first: if it fails, the entries are delivered again. In the other order
	// they could stay on the disk for ever.
	if err := i.cfg.Journal.Remove(ctx, id, ids...); err != nil {
		return unavailable("removing entries of", id, err)
	}
	c := i.commands.get(opAck, epoch)
	c.ids = ids
	err := i.sendForError(ctx, id, c)
	if errors.Is(err, sale.ErrStale) {
		return nil // another worker has acknowledged the last of them meanwhile
	}
	return err
}

// Attend implements sale.Inventory.
func (i *Inventory) Attend(_ context.Context, worker string) (stopped int, err error) {
	if !sale.IsWorkerName(worker) {
		return 0, invalid("worker", worker, "1 to 64 letters, digits, . _ -")
	}
	now := i.now()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.shards == nil {
		return 0, errStopped
	}
	i.workers[worker] = now
	for name, at := range i.workers {
		if now-at >= sale.WorkerFor.Microseconds() {
			delete(i.workers, name)
			stopped++
		}
	}
	return stopped, nil
}

// Delete implements sale.Inventory.
func (i *Inventory) Delete(ctx context.Context, id string, epoch int64) error {
	return i.sendForError(ctx, id, i.commands.get(opDelete, epoch))
}

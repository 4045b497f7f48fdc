package redisinventory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/redis/rueidis"
)

// group returns the name of the consumer group of a stream. It contains the epoch, so that a
// worker of an earlier epoch gets no entries of the next.
func group(epoch int64) string { return "clerks:" + itoa(epoch) }

// look bounds how long a read blocks at the server. After it the read checks for idle entries
// of other workers and for a closed state.
const look = 250 * time.Millisecond

// Next implements sale.Inventory. It also reads a stream whose other keys are missing.
func (g *Inventory) Next(ctx context.Context, id string, epoch int64, worker string, max int, wait time.Duration) ([]sale.Entry, error) {
	if !sale.IsWorkerName(worker) || max < 1 || max > 1000 || wait < 0 {
		return nil, fmt.Errorf("redisinventory: next: worker is %.70q, max is %d and wait is %v, want 1 to 64 letters, digits, . _ -, 1 to 1,000, and 0 or more: %w", worker, max, wait, sale.ErrInvalid)
	}
	if !possible(id, epoch) {
		return nil, staleError("next", id, epoch, "none")
	}
	keys := g.states.parts(id)
	stream := keys[6]
	until := time.Now().Add(wait)
	for {
		entries, err := g.take(ctx, id, epoch, keys, worker, max)
		if len(entries) > 0 || err != nil {
			return entries, err
		}
		left := min(time.Until(until), look, g.cfg.Redeliver).Truncate(time.Millisecond)
		if left <= 0 {
			return nil, nil
		}
		entries, err = g.block(ctx, id, epoch, stream, worker, max, left)
		if len(entries) > 0 || err != nil {
			return entries, err
		}
	}
}

// maxScans bounds how often take scans for idle entries. In each scan the server checks ten
// times as many entries as requested.
const maxScans = 20

// take reads the entries that are available, without waiting.
func (g *Inventory) take(ctx context.Context, id string, epoch int64, keys []string, worker string, max int) ([]sale.Entry, error) {
	from := ""
	if g.states.claims(id, min(time.Second, g.cfg.Redeliver/5)) {
		from = "0-0"
	}
	for scans := 0; ; scans++ {
		words, err := g.call(ctx, &g.scripts.next, []string{keys[0], keys[6]}, []string{
			itoa(epoch), group(epoch), worker, strconv.Itoa(max), itoa(g.cfg.Redeliver.Milliseconds()), from,
		})
		switch {
		case err != nil:
			return nil, err
		case words[0] == "stale" && len(words) == 2:
			return nil, staleError("next", id, epoch, words[1])
		case words[0] != "ok" || len(words)%4 != 3:
			return nil, g.failed("next", errReply)
		}
		var entries []sale.Entry
		for e := range slices.Chunk(words[3:], 4) {
			times, err := numbers(e[1])
			if err != nil {
				return nil, g.failed("next", err)
			}
			entries = append(entries, entry(e[0], int(times[0]), id, e[2], e[3]))
		}
		if from = words[2]; len(entries) > 0 || from == "0-0" || scans == maxScans {
			return entries, nil
		}
	}
}

// block waits at the server for a new entry.
func (g *Inventory) block(ctx context.Context, id string, epoch int64, stream, worker string, max int, wait time.Duration) ([]sale.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+g.cfg.Deadline)
	defer cancel()
	read, err := g.client.Do(ctx, g.client.B().Xreadgroup().Group(group(epoch), worker).
		Count(int64(max)).Block(wait.Milliseconds()).Streams().Key(stream).Id(">").Build()).AsXRead()
	switch e, ok := rueidis.IsRedisErr(err); {
	case rueidis.IsRedisNil(err):
		return nil, nil
	case ok && (strings.HasPrefix(e.Error(), "NOGROUP") || strings.HasPrefix(e.Error(), "UNBLOCKED")):
		return nil, staleError("next", id, epoch, "none")
	case err != nil:
		return nil, g.failed("next", err)
	}
	var entries []sale.Entry
	for _, x := range read[stream] {
		kind, text := "?", strings.Join(slices.Sorted(maps.Keys(x.FieldValues)), " ")
		if r, ok := x.FieldValues["r"]; ok && len(x.FieldValues) == 1 {
			kind, text = "r", r
		}
		entries = append(entries, entry(x.ID, 1, id, kind, text))
	}
	return entries, nil
}

// Ack implements sale.Inventory.
func (g *Inventory) Ack(ctx context.Context, id string, epoch int64, ids ...string) error {
	// An ID with another format is not in the stream.
	ids = slices.DeleteFunc(slices.Clone(ids), func(e string) bool { return !isEntry(e) })
	if !possible(id, epoch) {
		return staleError("done", id, epoch, "none")
	}
	keys := g.states.parts(id)[6:7]
	for first := true; first || len(ids) > 0; first = false {
		n := min(len(ids), 1000)
		words, err := g.call(ctx, &g.scripts.done, keys, append([]string{group(epoch)}, ids[:n]...))
		if err != nil {
			return err
		}
		if words[0] != "ok" {
			return staleError("done", id, epoch, "none")
		}
		ids = ids[n:]
	}
	return nil
}

// Attend implements sale.Inventory.
func (g *Inventory) Attend(ctx context.Context, worker string) (int, error) {
	if !sale.IsWorkerName(worker) {
		return 0, fmt.Errorf("redisinventory: attend: worker is %.70q, want 1 to 64 letters, digits, . _ -: %w", worker, sale.ErrInvalid)
	}
	words, err := g.call(ctx, &g.scripts.attend, []string{g.cfg.Prefix + "workers"}, []string{g.clock(), worker, itoa(sale.WorkerFor.Microseconds())})
	if err != nil {
		return 0, err
	}
	n, err := numbers(words[1:]...)
	if err != nil || len(n) != 3 {
		return 0, g.failed("attend", errReply)
	}
	stopped := int(n[2])
	if _, before := g.attended.Swap(worker, true); before && n[1] == 1 {
		stopped++
	}
	return stopped, nil
}

// isEntry reports whether s is the ID of an entry: two numbers.
func isEntry(s string) bool {
	a, b, ok := strings.Cut(s, "-")
	_, err1 := strconv.ParseUint(a, 10, 64)
	_, err2 := strconv.ParseUint(b, 10, 64)
	return ok && err1 == nil && err2 == nil && a[0] != '+' && b[0] != '+'
}

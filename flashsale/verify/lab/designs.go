package lab

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"time"
)

// A design opens the stock of a run and sells units to single buyers.
type design struct {
	open func(ctx context.Context, r *run) error
	buy  func(ctx context.Context, r *run, buyer int) (bool, error)
	keys func(r *run) []string
}

func designs() map[Design]design {
	return map[Design]design{
		Naive:     {open: openOne, buy: naive, keys: stockKeys},
		Fenced:    {open: openOne, buy: fenced, keys: stockKeys},
		Segmented: {open: openSegments, buy: segmented, keys: segments},
		Atomic:    {open: openOne, buy: atomicTake, keys: stockKeys},
	}
}

// stockKey returns the key of an unsplit stock. It and the keys below are in one cluster slot.
func (r *run) stockKey() string { return "{" + r.name + "}:stock" }
func (r *run) lockKey() string  { return "{" + r.name + "}:lock" }
func (r *run) seenKey() string  { return "{" + r.name + "}:seen" } // the largest fence that the stock has seen
func (r *run) fenceKey() string { return "{" + r.name + "}:fence" }

func stockKeys(r *run) []string {
	return []string{r.stockKey(), r.lockKey(), r.seenKey(), r.fenceKey()}
}

func openOne(ctx context.Context, r *run) error {
	return r.store.set(ctx, r.stockKey(), int64(r.Stock))
}

// acquire retries until it has the lock. The delays grow and are random, so that waiting buyers
// do not overload the store.
func acquire(ctx context.Context, ask func() (bool, error)) error {
	for try := 1; ; try++ {
		if got, err := ask(); got || err != nil {
			return err
		}
		most := min(10, try)
		if err := wait(ctx, time.Duration(1+mathrand.IntN(most*1000))*time.Microsecond); err != nil {
			return err
		}
	}
}

func naive(ctx context.Context, r *run, _ int) (bool, error) {
	if err := acquire(ctx, func() (bool, error) { return r.store.lock(ctx, r.lockKey(), "locked", r.TTL) }); err != nil {
		return false, err
	}
	left, err := r.store.get(ctx, r.stockKey())
	if err != nil {
		return false, err
	}
	sold := left > 0
	if sold {
		// The lock may expire here, and the next holder reads the same stock.
		if err := r.pause(ctx); err != nil {
			return false, err
		}
		if err := r.store.set(ctx, r.stockKey(), left-1); err != nil {
			return false, err
		}
	}
	return sold, r.store.del(ctx, r.lockKey()) // after a pause this is the lock of the next holder
}

func fenced(ctx context.Context, r *run, _ int) (bool, error) {
	owner := rand.Text()
	for {
		var fence int64
		err := acquire(ctx, func() (bool, error) {
			n, err := r.store.eval(ctx, lockFenced(), []string{r.lockKey(), r.fenceKey()}, owner, r.TTL.Milliseconds(), keep.Milliseconds())
			fence = n
			return n > 0, err
		})
		if err != nil {
			return false, err
		}
		left, err := r.store.eval(ctx, readFenced(), []string{r.stockKey(), r.seenKey()}, fence, keep.Milliseconds())
		if err != nil {
			return false, err
		}
		wrote := int64(0)
		if left > 0 {
			if err := r.pause(ctx); err != nil {
				return false, err
			}
			wrote, err = r.store.eval(ctx, writeFenced(), []string{r.stockKey(), r.seenKey()}, fence, left-1, keep.Milliseconds())
			if err != nil {
				return false, err
			}
		}
		if _, err := r.store.eval(ctx, unlock(), []string{r.lockKey()}, owner); err != nil {
			return false, err
		}
		if left == 0 || wrote == 1 {
			return wrote == 1, nil
		}
		// A later holder has read the stock since, so this read is stale: start again.
	}
}

// segmentCount is the number of segments of a stock.
const segmentCount = 10

func (r *run) segmentKey(i int) string { return fmt.Sprintf("{%s:%d}:stock", r.name, i) }
func (r *run) segmentLock(i int) string {
	return fmt.Sprintf("{%s:%d}:lock", r.name, i)
}

func segments(r *run) (keys []string) {
	for i := range segmentCount {
		keys = append(keys, r.segmentKey(i), r.segmentLock(i))
	}
	return keys
}

func openSegments(ctx context.Context, r *run) error {
	for i := range segmentCount {
		units := r.Stock / segmentCount
		if i < r.Stock%segmentCount {
			units++
		}
		if err := r.store.set(ctx, r.segmentKey(i), int64(units)); err != nil {
			return err
		}
	}
	return nil
}

// segmented tries all segments, its own first. No unit is ever returned, so if each segment was
// empty once, all of them are.
func segmented(ctx context.Context, r *run, buyer int) (bool, error) {
	owner := rand.Text()
	for i := range segmentCount {
		segment := (buyer + i) % segmentCount
		left, err := r.store.get(ctx, r.segmentKey(segment))
		if err != nil {
			return false, err
		}
		if left <= 0 {
			continue
		}
		lock := r.segmentLock(segment)
		if err := acquire(ctx, func() (bool, error) { return r.store.lock(ctx, lock, owner, r.TTL) }); err != nil {
			return false, err
		}
		if err := r.pause(ctx); err != nil {
			return false, err
		}
		// The guard makes this correct after a pause, when another buyer may hold the lock.
		got, err := r.store.eval(ctx, takeOne(), []string{r.segmentKey(segment)})
		if err != nil {
			return false, err
		}
		if _, err := r.store.eval(ctx, unlock(), []string{lock}, owner); err != nil {
			return false, err
		}
		if got == 1 {
			return true, nil
		}
	}
	return false, nil
}

func atomicTake(ctx context.Context, r *run, _ int) (bool, error) {
	// A pause before or after the one step has no effect.
	if err := r.pause(ctx); err != nil {
		return false, err
	}
	got, err := r.store.eval(ctx, takeOne(), []string{r.stockKey()})
	return got == 1, err
}

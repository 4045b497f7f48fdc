package lab

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestMuseum runs designs that were seen in shops, each with its defect, and each must be
// found out by what Run counts.
func TestMutants(t *testing.T) {
	play := func(t *testing.T, d design, c Config) (sold int, took time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			c.TTL, c.Pauses = 50*time.Millisecond, 3
			r := &run{Config: c, name: "museum", store: newMemory()}
			if err := d.open(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			n, err := r.runBuyers(t.Context(), d.buy)
			if err != nil {
				t.Fatal(err)
			}
			sold, took = n, time.Since(began)
		})
		return sold, took
	}
	real := designs()
	paused := Config{Buyers: 100, Stock: 25, Pause: 200 * time.Millisecond}

	t.Run("a lock that comes free and is not fenced", func(t *testing.T) {
		if sold, _ := play(t, real[Naive], paused); sold <= 25 {
			t.Errorf("sold %d of 25 units: not found out", sold)
		}
	})

	t.Run("segments of which the sum alone is looked at", func(t *testing.T) {
		d := real[Segmented]
		d.buy = func(ctx context.Context, r *run, buyer int) (bool, error) {
			var sum int64
			for i := range segmentCount {
				n, err := r.store.get(ctx, r.segmentKey(i))
				if err != nil {
					return false, err
				}
				sum += n
			}
			if sum <= 0 {
				return false, nil
			}
			if err := r.pause(ctx); err != nil {
				return false, err
			}
			key := r.segmentKey(buyer % segmentCount)
			left, err := r.store.get(ctx, key)
			if err != nil {
				return false, err
			}
			return true, r.store.set(ctx, key, left-1)
		}
		if sold, _ := play(t, d, paused); sold <= 25 {
			t.Errorf("sold %d of 25 units: not found out", sold)
		}
	})

	t.Run("a fence that is checked by who writes alone", func(t *testing.T) {
		// The older of two that have read the same stock writes first, and its fence is the
		// largest until then.
		ctx := t.Context()
		r := &run{Config: Config{Stock: 2}, name: "museum", store: newMemory()}
		if err := openOne(ctx, r); err != nil {
			t.Fatal(err)
		}
		unseen := func(fence int64) int64 {
			left, err := r.store.get(ctx, r.stockKey()) // instead of readFenced
			if err != nil {
				t.Fatal(err)
			}
			return left
		}
		write := func(read func(int64) int64) (wrote int64) {
			left := []int64{read(1), read(2)}
			for i, n := range left {
				done, err := r.store.eval(ctx, writeFenced(), []string{r.stockKey(), r.seenKey()}, int64(i+1), n-1, int64(1000))
				if err != nil {
					t.Fatal(err)
				}
				wrote += done
			}
			return wrote
		}
		if wrote := write(unseen); wrote != 2 {
			t.Errorf("%d of two writes of the same stock were taken: not found out", wrote)
		}
		if err := openOne(ctx, r); err != nil {
			t.Fatal(err)
		}
		fenced := func(fence int64) int64 {
			left, err := r.store.eval(ctx, readFenced(), []string{r.stockKey(), r.seenKey()}, fence, int64(1000))
			if err != nil {
				t.Fatal(err)
			}
			return left
		}
		if wrote := write(fenced); wrote != 1 {
			t.Errorf("%d of two fenced writes of the same stock were taken, want 1", wrote)
		}
	})

	t.Run("a lock that stays when all is sold", func(t *testing.T) {
		d := real[Naive]
		d.buy = func(ctx context.Context, r *run, buyer int) (bool, error) {
			if err := acquire(ctx, func() (bool, error) { return r.store.lock(ctx, r.lockKey(), "locked", r.TTL) }); err != nil {
				return false, err
			}
			left, err := r.store.get(ctx, r.stockKey())
			if err != nil || left == 0 {
				return false, err // without unlocking
			}
			if err := r.store.set(ctx, r.stockKey(), left-1); err != nil {
				return false, err
			}
			return true, r.store.del(ctx, r.lockKey())
		}
		c := Config{Buyers: 40, Stock: 5}
		_, stuck := play(t, d, c)
		_, free := play(t, real[Naive], c)
		// Each of the 35 who get nothing keeps the lock until its time is over.
		if least := 34 * 50 * time.Millisecond; stuck < least || free > least/4 {
			t.Errorf("it took %s, and %s when it is unlocked, want more than %s and much less", stuck, free, least)
		}
	})
}

package lab

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestMutants runs defective designs of real shops and wants the defect in the counts of Run.
func TestMutants(t *testing.T) {
	runDesign := func(t *testing.T, d design, c Config) (sold int, took time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			c.TTL, c.Pauses = 50*time.Millisecond, 3
			r := &run{Config: c, name: "mutant", store: newMemory()}
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

	t.Run("a lock that expires, without a fence", func(t *testing.T) {
		if sold, _ := runDesign(t, real[Naive], paused); sold <= 25 {
			t.Errorf("sold %d of 25 units: defect not detected", sold)
		}
	})

	t.Run("segments with a check of the sum only", func(t *testing.T) {
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
		if sold, _ := runDesign(t, d, paused); sold <= 25 {
			t.Errorf("sold %d of 25 units: defect not detected", sold)
		}
	})

	t.Run("a fence that is checked only when writing", func(t *testing.T) {
		// The older of two readers of the same stock writes first, while its fence is still the
		// largest.
		ctx := t.Context()
		r := &run{Config: Config{Stock: 2}, name: "mutant", store: newMemory()}
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
			t.Errorf("%d of two writes of the same stock were taken: defect not detected", wrote)
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

	t.Run("a lock that is not released when all is sold", func(t *testing.T) {
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
		_, stuck := runDesign(t, d, c)
		_, free := runDesign(t, real[Naive], c)
		// Each of the 35 buyers without a unit keeps the lock until it expires.
		if least := 34 * 50 * time.Millisecond; stuck < least || free > least/4 {
			t.Errorf("took %s, and %s with unlocking; want more than %s, and less than a quarter of that", stuck, free, least)
		}
	})
}

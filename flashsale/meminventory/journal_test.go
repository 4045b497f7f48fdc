package meminventory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/meminventory"
	"github.com/floodweir/weir/flashsale/sale"
)

// A disk is a Journal that can be held up and can fail.
type disk struct {
	*meminventory.MemoryJournal
	append  func(rs []sale.Reservation) (write bool, err error)
	pending func() error
	remove  func() error
}

func (d *disk) Append(ctx context.Context, id string, epoch int64, rs []sale.Reservation) error {
	if d.append != nil {
		write, err := d.append(rs)
		if write {
			err = errors.Join(err, d.MemoryJournal.Append(ctx, id, epoch, rs))
		}
		return err
	}
	return d.MemoryJournal.Append(ctx, id, epoch, rs)
}

func (d *disk) Pending(ctx context.Context, id string, epoch int64) ([]sale.Entry, error) {
	if d.pending != nil {
		if err := d.pending(); err != nil {
			return nil, err
		}
	}
	return d.MemoryJournal.Pending(ctx, id, epoch)
}

func (d *disk) Remove(ctx context.Context, id string, ids ...string) error {
	if d.remove != nil {
		if err := d.remove(); err != nil {
			return err
		}
	}
	return d.MemoryJournal.Remove(ctx, id, ids...)
}

// A shop is an Inventory with a sale "s" of ten units, one for each user, that is open.
type shop struct {
	*testing.T
	*meminventory.Inventory
	epoch int64
}

var errDisk = errors.New("disk full")

func start(t *testing.T, cfg meminventory.Config) *shop {
	t.Helper()
	e, err := meminventory.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &shop{T: t, Inventory: e}
}

func (s *shop) opening(epoch int64, holds ...sale.Reservation) sale.InitialState {
	now := time.Now()
	return sale.InitialState{Reserved: holds, Sale: sale.Sale{ID: "s", Epoch: epoch, State: sale.Exposed, Draft: sale.Draft{
		Stock: 10, PerUser: 2, Queue: sale.Direct, StartsAt: now.Add(-time.Second), EndsAt: now.Add(time.Hour), PayWithin: time.Minute,
	}}}
}

func (s *shop) open(epoch int64, holds ...sale.Reservation) {
	s.Helper()
	if err := s.Open(s.Context(), s.opening(epoch, holds...)); err != nil {
		s.Fatalf("Open(%d) = %v", epoch, err)
	}
	s.epoch = epoch
}

func ticket(user string) string { return fmt.Sprintf("ticket-000000000-%s", user) }

func (s *shop) join(user string) error {
	_, err := s.Join(s.Context(), sale.JoinRequest{Sale: "s", Epoch: s.epoch, User: user, Ticket: ticket(user), Batch: "b", Until: time.Now().Add(time.Minute)})
	return err
}

func (s *shop) reserve(user string) (sale.ReserveResult, error) {
	return s.Reserve(s.Context(), sale.ReserveRequest{Sale: "s", Epoch: s.epoch, User: user, Ticket: ticket(user), Key: "key", Reservation: "reservation-0000" + user})
}

func (s *shop) buy(user string) sale.Reservation {
	s.Helper()
	if err := s.join(user); err != nil {
		s.Fatalf("Join(%s) = %v", user, err)
	}
	o, err := s.reserve(user)
	if err != nil || o.Reason != sale.OK {
		s.Fatalf("Reserve(%s) = %+v, %v", user, o, err)
	}
	return o.Reservation
}

// users checks of whom entries are delivered.
func (s *shop) users(epoch int64, want ...string) []string {
	s.Helper()
	es, err := s.Next(s.Context(), "s", epoch, "w", 100, 0)
	if err != nil {
		s.Fatalf("Next = %v", err)
	}
	var got, ids []string
	for _, e := range es {
		got, ids = append(got, e.Reservation.User), append(ids, e.ID)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.Fatalf("Next delivers entries of %v, want %v", got, want)
	}
	return ids
}

func (s *shop) is(what string, err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Fatalf("%s = %v, want %v", what, err, want)
	}
}

// end reads that the stream of an epoch is at its end.
func (s *shop) end(epoch int64) {
	s.Helper()
	_, err := s.Next(s.Context(), "s", epoch, "w", 1, time.Minute)
	s.is("Next at the end", err, sale.ErrStale)
}

// A process that begins anew has no state, but what the one before acknowledged.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal := meminventory.NewMemoryJournal()
		a := start(t, meminventory.Config{Journal: journal})
		a.open(1)
		a.buy("ann")
		bob := a.buy("bob")
		ann := a.users(1, "ann", "bob")[0]
		if err := a.Ack(t.Context(), "s", 1, ann); err != nil {
			t.Fatal(err)
		}
		a.Stop()

		b := start(t, meminventory.Config{Journal: journal})
		defer b.Stop()
		b.epoch = 1
		b.is("Join of an epoch before", b.join("eve"), sale.ErrStale)
		b.is("Open of an epoch whose entries it does not know", b.Open(t.Context(), b.opening(1)), sale.ErrStale)
		if err := b.Close(t.Context(), "s", 1); err != nil {
			t.Fatal(err)
		}
		left := b.users(1, "bob")
		b.is("Drop of entries", b.Delete(t.Context(), "s", 1), sale.ErrConflict)
		b.users(1) // a worker has the entry
		b.is("Open while an entry is not done", b.Open(t.Context(), b.opening(2, bob)), sale.ErrConflict)
		time.Sleep(11 * time.Second)
		if again := b.users(1, "bob"); again[0] != left[0] {
			t.Fatalf("entry %q, then %q", left[0], again[0])
		}
		if err := b.Ack(t.Context(), "s", 1, left...); err != nil {
			t.Fatal(err)
		}
		b.end(1)
		b.open(2, bob)
		b.is("Join of an epoch before", func() error { b.epoch = 1; return b.join("eve") }(), sale.ErrStale)
		b.epoch = 2
		if o, err := b.reserve("bob"); err != nil || !o.Repeated || o.Reservation.ID != bob.ID {
			t.Fatalf("Reserve of bob after the restart = %+v, %v", o, err)
		}
		b.buy("eve")
		b.users(2, "eve")
	})
}

// TestJournalFails checks that an epoch ends when it is unknown whether a reservation is on
// disk, and that the disk decides.
func TestJournalFails(t *testing.T) {
	for _, written := range []bool{false, true} {
		t.Run(fmt.Sprintf("written %v", written), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &disk{MemoryJournal: meminventory.NewMemoryJournal()}
				s := start(t, meminventory.Config{Journal: d})
				defer s.Stop()
				s.open(1)
				s.buy("ann")
				if err := s.join("bob"); err != nil {
					t.Fatal(err)
				}
				d.append = func([]sale.Reservation) (bool, error) { return written, errDisk }
				_, err := s.reserve("bob")
				s.is("Reserve", err, sale.ErrUnavailable)
				s.is("Reserve", err, errDisk)
				d.append = nil
				_, err = s.reserve("bob")
				s.is("Reserve again", err, sale.ErrStale)
				_, err = s.Status(t.Context(), "s", 1, "ann")
				s.is("Look", err, sale.ErrStale)
				s.is("Open", s.Open(t.Context(), s.opening(1)), sale.ErrStale)

				d.pending = func() error { return errDisk }
				_, err = s.Next(t.Context(), "s", 1, "w", 9, 0)
				s.is("Next while the disk cannot be read", err, sale.ErrUnavailable)
				s.is("Drop while the disk was not read", s.Delete(t.Context(), "s", 1), sale.ErrConflict)
				s.is("Open while the disk was not read", s.Open(t.Context(), s.opening(2)), sale.ErrConflict)
				d.pending = nil
				want := []string{"ann"}
				if written {
					want = append(want, "bob")
				}
				ids := s.users(1, want...)
				d.remove = func() error { return errDisk }
				s.is("Done while the disk fails", s.Ack(t.Context(), "s", 1, ids...), sale.ErrUnavailable)
				d.remove = nil
				if err := s.Ack(t.Context(), "s", 1, ids...); err != nil {
					t.Fatal(err)
				}
				s.end(1)
				d.pending = func() error { return errDisk }
				s.is("Open while the disk cannot be read", s.Open(t.Context(), s.opening(2)), sale.ErrUnavailable)
				d.pending = nil
				s.open(2)
				s.buy("bob")
			})
		})
	}
}

// TestGroupCommit checks that other calls return while the disk is busy, that no reservation is
// visible before it is on disk, and that concurrent reservations share a sync.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		gate := make(chan error)
		d := &disk{MemoryJournal: meminventory.NewMemoryJournal()}
		d.append = func(rs []sale.Reservation) (bool, error) {
			sizes = append(sizes, len(rs))
			err := <-gate
			return err == nil, err
		}
		var points []string
		var mu sync.Mutex
		s := start(t, meminventory.Config{Journal: d, Crash: crashpoint.New(func(p string) {
			mu.Lock()
			defer mu.Unlock()
			points = append(points, p)
		})})
		s.open(1)
		users := []string{"a", "b", "c", "d"}
		for _, u := range users {
			if err := s.join(u); err != nil {
				t.Fatal(err)
			}
		}
		answered := make(map[string]int)
		ask := func(what string, f func() error) {
			go func() {
				err := f()
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Errorf("%s = %v", what, err)
				}
				answered[what]++
			}()
		}
		for _, u := range users {
			ask("reserve", func() error { _, err := s.reserve(u); return err })
			synctest.Wait()
			ask("again", func() error {
				o, err := s.reserve(u)
				if !o.Repeated {
					t.Errorf("Reserve again = %+v", o)
				}
				return err
			})
			ask("look", func() error { _, err := s.Status(t.Context(), "s", 1, u); return err })
			ask("join", func() error { return s.join(u) })
			ask("return", func() error {
				_, err := s.Return(t.Context(), "s", 1, u, "reservation-0000"+u, true)
				return err
			})
			synctest.Wait()
		}
		if len(answered) > 0 {
			t.Fatalf("answered before the disk: %v", answered)
		}
		if es, err := s.Next(t.Context(), "s", 1, "w", 9, 0); len(es) > 0 || err != nil {
			t.Fatalf("Next before the disk = %v, %v", es, err)
		}
		if _, err := s.Status(t.Context(), "s", 1, "other"); err != nil {
			t.Fatalf("Look of another user while the disk is busy = %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Status(ctx, "s", 1, "a")
		s.is("Look that is given up", err, sale.ErrUnavailable)
		gate <- nil
		synctest.Wait()
		if answered["reserve"] != 1 || answered["look"] != 1 || answered["again"] != 1 {
			t.Fatalf("answered after the first sync: %v", answered)
		}
		s.users(1, "a")
		gate <- nil
		synctest.Wait()
		if answered["reserve"] != 4 || answered["return"] != 4 || answered["join"] != 4 || fmt.Sprint(sizes) != "[1 3]" {
			t.Fatalf("answered %v in syncs of %v, want 4 in [1 3]", answered, sizes)
		}
		s.users(1, "b", "c", "d")
		if want := []string{crashpoint.ReserveDecided, crashpoint.ReserveJournaled, crashpoint.ReserveDecided, crashpoint.ReserveJournaled}; crashpoint.Enabled && !slices.Equal(points, want) {
			t.Fatalf("points = %v, want %v", points, want)
		}
		s.Stop()
		s.Stop()
	})
}

// TestEndsWhileTheDiskIsBusy checks that a reservation which is being appended completes when
// its epoch is closed or the Inventory stops. Later ones are not made.
func TestEndsWhileTheDiskIsBusy(t *testing.T) {
	for _, stop := range []bool{false, true} {
		t.Run(fmt.Sprintf("stop %v", stop), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan error)
				d := &disk{MemoryJournal: meminventory.NewMemoryJournal()}
				d.append = func([]sale.Reservation) (bool, error) { <-gate; return true, nil }
				s := start(t, meminventory.Config{Journal: d})
				s.open(1)
				errs := make(map[string]error)
				var mu sync.Mutex
				for _, u := range []string{"a", "b"} {
					if err := s.join(u); err != nil {
						t.Fatal(err)
					}
					go func() {
						_, err := s.reserve(u)
						mu.Lock()
						defer mu.Unlock()
						errs[u] = err
					}()
					synctest.Wait()
				}
				go func() {
					if stop {
						s.Stop()
					} else if err := s.Close(t.Context(), "s", 1); err != nil {
						t.Errorf("Close = %v", err)
					}
				}()
				synctest.Wait()
				if len(errs) > 0 {
					t.Fatalf("answered before the disk: %v", errs)
				}
				gate <- nil
				synctest.Wait()
				want := sale.ErrStale
				if stop {
					want = sale.ErrUnavailable
				}
				if errs["a"] != nil || !errors.Is(errs["b"], want) {
					t.Fatalf("errors = %v, want none of a and %v of b", errs, want)
				}
				if !stop {
					s.users(1, "a")
					s.Stop()
				}
				es, err := d.MemoryJournal.Pending(t.Context(), "s", 1)
				if err != nil || len(es) != 1 {
					t.Fatalf("the disk has %v, %v, want what was acknowledged", es, err)
				}
				_, err = s.Counts(t.Context(), "s", 1)
				s.is("Count after Stop", err, sale.ErrUnavailable)
				_, err = s.Next(t.Context(), "s", 1, "w", 1, time.Minute)
				s.is("Next after Stop", err, sale.ErrUnavailable)
			})
		})
	}
}

// What cannot be read on the disk is delivered as damaged, among what can.
func TestDamaged(t *testing.T) {
	d := damaged{meminventory.NewMemoryJournal()}
	s := start(t, meminventory.Config{Journal: d})
	defer s.Stop()
	es, err := s.Next(t.Context(), "s", 4, "w", 9, 0)
	if err != nil || len(es) != 1 || es[0].Corrupt != "no JSON" || es[0].ID != "7" || es[0].Deliveries != 1 {
		t.Fatalf("Next = %+v, %v", es, err)
	}
	if err := s.Ack(t.Context(), "s", 4, "7"); err != nil {
		t.Fatal(err)
	}
}

type damaged struct{ *meminventory.MemoryJournal }

func (d damaged) Pending(context.Context, string, int64) ([]sale.Entry, error) {
	return []sale.Entry{{ID: "7", Corrupt: "no JSON"}}, nil
}

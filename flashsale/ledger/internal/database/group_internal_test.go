package database

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// A gang runs functions together in a database, behind one that is held.
type gang struct {
	t    *testing.T
	db   *DB
	errs []error
	done sync.WaitGroup
}

// member is a function of a gang.
type member struct {
	ctx context.Context
	f   func(*Tx) error
}

// run starts the members one after the other while a transaction runs, lets them run, and returns
// their errors.
func (g *gang) run(members ...member) []error {
	g.t.Helper()
	began, release := make(chan struct{}), make(chan struct{})
	g.done.Go(func() {
		err := g.db.Do(g.t.Context(), WriteKeyed, func(*Tx) error {
			close(began)
			<-release
			return nil
		})
		if err != nil {
			g.t.Error(err)
		}
	})
	<-began
	g.errs = make([]error, len(members))
	for i, m := range members {
		g.errs[i] = errors.New("no result")
		g.done.Go(func() { g.errs[i] = g.db.Do(m.ctx, WriteKeyed, m.f) })
		for g.waiting() < i+1 {
			runtime.Gosched()
		}
	}
	close(release)
	g.done.Wait()
	return g.errs
}

func (g *gang) waiting() int {
	g.db.groups.mu.Lock()
	defer g.db.groups.mu.Unlock()
	return len(g.db.groups.waiting)
}

// adds returns a function that inserts a row and notes its transaction.
func (g *gang) adds(id string, to *[]querier, fails error) member {
	return member{g.t.Context(), func(x *Tx) error {
		*to = append(*to, x.q)
		if _, err := x.Exec("INSERT INTO a (id) VALUES ($1)", id); err != nil {
			return err
		}
		return fails
	}}
}

// rows returns the committed rows.
func (g *gang) rows() (ids []string) {
	g.t.Helper()
	err := g.db.Do(g.t.Context(), ReadOne, func(x *Tx) (err error) {
		ids, err = List(x, ScanText, "SELECT id FROM a ORDER BY id")
		return err
	})
	if err != nil {
		g.t.Fatal(err)
	}
	return ids
}

func newGang(t *testing.T) *gang {
	t.Helper()
	db, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "a.db"), Config{Conns: 1, Timeout: time.Minute})
	if err == nil {
		err = db.Exec(t.Context(), "CREATE TABLE a (id text PRIMARY KEY)")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return &gang{t: t, db: db}
}

// TestTogether checks that functions that wait share a transaction, and that none returns before
// its commit.
func TestTogether(t *testing.T) {
	g := newGang(t)
	var in []querier
	early := 0
	last := member{t.Context(), func(x *Tx) error {
		in = append(in, x.q)
		if len(g.rows()) > 0 { // another connection sees what is committed
			early++
		}
		return nil
	}}
	errs := g.run(g.adds("1", &in, nil), g.adds("2", &in, nil), last)
	if err := errors.Join(errs...); err != nil || len(in) != 3 || in[0] != in[1] || in[1] != in[2] || early > 0 {
		t.Errorf("%v; %d functions, want 3 in one transaction; committed early %d", err, len(in), early)
	}
	if got := g.rows(); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("rows %q, want 1 and 2", got)
	}
}

// TestTogetherOneFails checks that a function that fails changes nothing, and that the others of
// its group commit.
func TestTogetherOneFails(t *testing.T) {
	g := newGang(t)
	var in []querier
	wrong := errors.New("wrong")
	errs := g.run(g.adds("1", &in, nil), g.adds("2", &in, wrong), g.adds("1", &in, nil), g.adds("3", &in, nil))
	if errs[0] != nil || !errors.Is(errs[1], wrong) || !IsDuplicate(errs[2]) || errs[3] != nil {
		t.Errorf("errors %v, want none, wrong, a duplicate, none", errs)
	}
	if got := g.rows(); !slices.Equal(got, []string{"1", "3"}) {
		t.Errorf("rows %q, want 1 and 3", got)
	}
}

// TestTogetherWithoutCommit checks that all functions of a group fail if it is not committed, and
// that none runs again: the content of the disk is unknown then.
func TestTogetherWithoutCommit(t *testing.T) {
	g := newGang(t)
	var in []querier
	undo := member{t.Context(), func(x *Tx) error {
		_, err := x.Exec("ROLLBACK") // so that the commit fails
		return err
	}}
	errs := g.run(g.adds("1", &in, nil), undo)
	if errs[0] == nil || errs[1] == nil || len(in) != 1 || len(g.rows()) != 0 {
		t.Errorf("errors %v, %d runs, rows %q, want 2 errors, 1 run and no row", errs, len(in), g.rows())
	}
	if errs := g.run(g.adds("2", &in, nil)); errs[0] != nil {
		t.Errorf("afterwards: %v", errs[0])
	}
}

// TestTogetherGivenUp checks that a function whose context ends before its turn is not run, and
// that one whose context ends later commits with the others.
func TestTogetherGivenUp(t *testing.T) {
	g := newGang(t)
	var in []querier
	ended, end := context.WithCancel(t.Context())
	end()
	never := g.adds("1", &in, nil)
	never.ctx = ended
	if err := g.db.Do(ended, WriteKeyed, never.f); !errors.Is(err, context.Canceled) || !errors.Is(err, sale.ErrUnavailable) {
		t.Errorf("ended before: %v", err)
	}
	later, end := context.WithCancel(t.Context())
	leaves := g.adds("2", &in, nil)
	leaves.ctx = later
	insert := leaves.f
	leaves.f = func(x *Tx) error {
		end()
		return insert(x)
	}
	if errs := g.run(leaves, g.adds("3", &in, nil)); errs[0] != nil || errs[1] != nil {
		t.Errorf("ended during the transaction: %v", errs)
	}
	if got := g.rows(); !slices.Equal(got, []string{"2", "3"}) {
		t.Errorf("rows %q, want 2 and 3", got)
	}
}

// TestTogetherEnds checks that a function that ends its goroutine leaves nothing, and stops no
// later one.
func TestTogetherEnds(t *testing.T) {
	g := newGang(t)
	var in []querier
	errs := g.run(g.adds("1", &in, nil), member{t.Context(), func(*Tx) error { runtime.Goexit(); return nil }})
	if !errors.Is(errs[0], sale.ErrUnavailable) || !errors.Is(errs[1], sale.ErrUnavailable) || len(g.rows()) != 0 {
		t.Errorf("errors %v, rows %q, want unavailable and no row", errs, g.rows())
	}
	if errs := g.run(g.adds("2", &in, nil)); errs[0] != nil {
		t.Errorf("afterwards: %v", errs[0])
	}
}

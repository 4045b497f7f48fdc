package database

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A slowDisk syncs when it is released, with an error or none.
type slowDisk struct {
	syncs   int
	release chan error
}

func (d *slowDisk) sync() error {
	d.syncs++
	return <-d.release
}

// TestWALSync checks that a commit is durable when its number has been waited for, that the next
// commits do not wait for the sync, and that one sync covers them.
func TestWALSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &slowDisk{release: make(chan error)}
		s := newWALSync("x")
		s.disk = d.sync
		var mu sync.Mutex
		var done []int64
		commit := func(n int64) {
			t.Helper()
			if got, err := s.begin(); got != n || err != nil {
				t.Fatalf("begin = %d, %v, want %d", got, err, n)
			}
			s.end(n)
			go func() {
				if err := s.waitCommit(n); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				done = append(done, n)
			}()
			synctest.Wait()
		}
		commit(1)
		for n := range int64(3) {
			commit(n + 2)
		}
		if len(done) > 0 || d.syncs != 1 {
			t.Fatalf("%v are durable during sync %d", done, d.syncs)
		}
		d.release <- nil
		synctest.Wait()
		if len(done) != 1 || done[0] != 1 || d.syncs != 2 {
			t.Fatalf("%v are durable after the first sync, %d syncs; want commit 1, and another sync", done, d.syncs)
		}
		d.release <- nil
		synctest.Wait()
		if len(done) != 4 || d.syncs != 2 {
			t.Fatalf("%v are durable after 2 syncs (%d), want all", done, d.syncs)
		}
		if err := s.waitAll(t.Context()); err != nil || d.syncs != 2 {
			t.Errorf("waitAll without a commit: %v, %d syncs", err, d.syncs)
		}
		// A read may have seen a commit that has not ended. A sync that began before its end does not
		// cover it.
		commit(5)
		commit(6)
		if _, err := s.begin(); err != nil {
			t.Fatal(err)
		}
		read := false
		go func() { read = s.waitAll(t.Context()) == nil }()
		synctest.Wait()
		for range 2 {
			d.release <- nil
			synctest.Wait()
		}
		if d.syncs != 4 || read || len(done) != 6 {
			t.Fatalf("a read during a commit: %d syncs, returned: %v, %v are durable", d.syncs, read, done)
		}
		s.end(7)
		synctest.Wait()
		d.release <- nil
		synctest.Wait()
		if !read {
			t.Error("a read did not return after the sync of what it has seen")
		}
	})
}

// TestWALSyncStalls checks that a read ends with its context while the disk does not answer, also
// if it began the sync, and that a commit waits until it is durable.
func TestWALSyncStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &slowDisk{release: make(chan error)}
		s := newWALSync("x")
		s.disk = d.sync
		n, err := s.begin()
		if err != nil {
			t.Fatal(err)
		}
		s.end(n)
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := s.waitAll(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a read while the disk stalls: %v", err)
			}
			cancel()
		}
		done := make(chan error, 1)
		go func() { done <- s.waitCommit(n) }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Errorf("the commit returned %v before it is durable", err)
		default:
		}
		d.release <- nil
		if err := errors.Join(<-done, s.waitAll(t.Context()), s.close()); err != nil || d.syncs != 1 {
			t.Errorf("after the sync: %v, %d syncs", err, d.syncs)
		}
	})
}

// TestWALSyncFails checks that a failed sync is an error of what it covers and of all later
// commits, and not of earlier ones.
func TestWALSyncFails(t *testing.T) {
	broken := errors.New("broken disk")
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := Open(t.Context(), "sqlite:"+path, Config{Conns: 1, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	insert := func(m Mode) error {
		return db.Do(t.Context(), m, func(x *Tx) error {
			_, err := x.Exec("INSERT INTO audit (at, actor, sale, what) VALUES (1, 'a', '', 'w')")
			return err
		})
	}
	for _, m := range []Mode{Write, WriteOne, WriteKeyed} {
		if err := insert(m); err != nil {
			t.Fatal(err)
		}
	}
	good := db.wal.disk
	for i, m := range []Mode{Write, WriteOne, WriteKeyed} {
		db.wal.disk = func() error { return broken }
		if err := insert(m); !errors.Is(err, broken) {
			t.Errorf("mode %d: %v, want the error of the disk", m, err)
		}
		db.wal.disk = good // the kernel may report an error once
		for _, m := range []Mode{Write, WriteOne, WriteKeyed, Read, ReadOne} {
			f := func(x *Tx) error { return x.Row("SELECT 1").Scan(new(int)) }
			if err := db.Do(t.Context(), m, f); !errors.Is(err, broken) {
				t.Errorf("%d: mode %d after a failed sync: %v, want its error", i, m, err)
			}
		}
		db.wal = newWALSync(path)
	}
}

// TestWALSyncBeforeReturn checks that no mode returns before a sync of its commit.
func TestWALSyncBeforeReturn(t *testing.T) {
	db, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "a.db"), Config{Conns: 2, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, m := range []Mode{Write, WriteOne, WriteKeyed} {
		began, release := make(chan struct{}), make(chan struct{})
		good := db.wal.disk
		db.wal.disk = func() error {
			close(began)
			<-release
			db.wal.disk = good
			return good()
		}
		wrote, read := make(chan error, 1), make(chan error, 1)
		go func() {
			wrote <- db.Do(context.Background(), m, func(x *Tx) error {
				_, err := x.Exec("INSERT INTO audit (at, actor, sale, what) VALUES (1, 'a', '', 'w')")
				return err
			})
		}()
		<-began
		go func() {
			read <- db.Do(context.Background(), ReadOne, func(x *Tx) error { return x.Row("SELECT count(*) FROM audit").Scan(new(int)) })
		}()
		select {
		case err := <-wrote:
			t.Errorf("mode %d returned %v before the sync", m, err)
		case err := <-read:
			t.Errorf("mode %d: a read of its commit returned %v before the sync", m, err)
		case <-time.After(50 * time.Millisecond):
		}
		close(release)
		if err := errors.Join(<-wrote, <-read); err != nil {
			t.Error(err)
		}
	}
}

// TestWALSyncFile syncs a log that is missing, and one that is replaced.
func TestWALSyncFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := newWALSync(path)
	if err := s.sync(); err != nil || s.file != nil {
		t.Errorf("sync without a log: %v, file %v", err, s.file)
	}
	for range 2 {
		if err := os.WriteFile(path+"-wal.new", []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+"-wal.new", path+"-wal"); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.sync(); err != nil {
				t.Fatal(err)
			}
		}
		now, err := os.Stat(s.path)
		if err != nil {
			t.Fatal(err)
		}
		if of, err := s.file.Stat(); err != nil || !os.SameFile(now, of) {
			t.Errorf("the synced file is another one than the log: %v", err)
		}
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}

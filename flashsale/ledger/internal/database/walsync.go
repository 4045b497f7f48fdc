package database

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// walSync syncs the write-ahead log of SQLite. The connection that writes does not (it has
// synchronous=NORMAL), so the next transaction runs while the disk stores the ones before, and one
// sync covers several. Nothing is returned before it is durable: neither the result of a
// transaction, nor what a read may have seen of one. A nil walSync is of a database in memory.
type walSync struct {
	path string
	disk func() error // sync

	mu      sync.Mutex
	changed sync.Cond // with mu
	begun   int64     // commits that have begun
	ended   int64     // of these, those that have ended
	synced  int64     // of these, those that are durable
	syncing bool
	file    *os.File
	err     error // of a sync, after which the content of the disk is unknown
}

func newWALSync(path string) *walSync {
	s := &walSync{path: path + "-wal"}
	s.disk, s.changed.L = s.sync, &s.mu
	return s
}

// begin begins a commit, by the only connection that writes, and returns its number. After a failed sync
// it returns the error.
func (s *walSync) begin() (int64, error) {
	if s == nil {
		return 0, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.begun++
	}
	return s.begun, s.err
}

// end ends a commit. The next one may have begun, but this one was written before.
func (s *walSync) end(commit int64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = max(s.ended, commit)
	s.changed.Broadcast()
}

// waitAll waits until everything that a read may have seen is durable.
func (s *walSync) waitAll(ctx context.Context) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	begun := s.begun
	s.mu.Unlock()
	return s.wait(ctx, begun)
}

// waitCommit waits until a commit is durable, as long as that takes: a caller that stopped waiting
// would not know whether its transaction is stored.
func (s *walSync) waitCommit(commit int64) error { return s.wait(context.Background(), commit) }

// wait waits until the commits up to a number are durable, or ctx is done.
func (s *walSync) wait(ctx context.Context, commit int64) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.synced < commit && ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.changed.Broadcast()
		})
		defer stop()
	}
	for s.synced < commit && s.err == nil {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("sync: %w", err)
		}
		if !s.syncing && s.ended != s.synced {
			s.syncing = true
			go s.syncEnded()
		}
		s.changed.Wait()
	}
	if s.synced < commit {
		return s.err
	}
	return nil
}

// syncEnded syncs the commits that have ended.
func (s *walSync) syncEnded() {
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	err := s.disk()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.syncing = false; err != nil {
		s.err = fmt.Errorf("sync: %w", err)
	} else {
		s.synced = ended
	}
	s.changed.Broadcast()
}

// sync syncs the log. A log that does not exist was copied into the file by the last connection,
// which synced that. One goroutine at a time calls it.
func (s *walSync) sync() error {
	if s == nil {
		return nil
	}
	now, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.file != nil {
		if of, err := s.file.Stat(); err == nil && os.SameFile(now, of) {
			return s.file.Sync()
		}
		_ = s.file.Close() // another log
		s.file = nil
	}
	// Closing this file releases no lock of SQLite: it locks other files.
	if s.file, err = os.OpenFile(s.path, os.O_RDWR, 0); err != nil {
		return err
	}
	return s.file.Sync()
}

// close closes the log after a sync in progress. No commit is in progress.
func (s *walSync) close() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.syncing {
		s.changed.Wait()
	}
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

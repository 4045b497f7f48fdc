// Package watch reports changes of the content of files, however they are replaced.
//
//	w, err := watch.New(watch.Config{Paths: []string{"weir.yaml", "ratelimit/"}})
//	…
//	defer w.Close()
//	for range w.Changed() {
//		// read them again
//	}
//
// A file counts as changed if its bytes have: written in place, renamed over, or behind a
// link with a new target (as in a mounted ConfigMap). Where the system sends no events,
// the files are polled every few seconds.
package watch

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Defaults of a Config.
const (
	DefaultQuiet = 100 * time.Millisecond
	DefaultPoll  = 5 * time.Second
)

// Config is the configuration of a Watcher. Paths is required.
type Config struct {
	// Paths are files and directories. A directory stands for the files in it and in its
	// subdirectories, but for those whose names begin with a dot.
	Paths []string

	// Includes, if not nil, returns further files that those of Paths name. It is called at
	// the start and whenever Paths changed.
	Includes func() []string

	// Quiet is the time without events before a change is reported, so that a reader does
	// not see half a file; DefaultQuiet if zero.
	Quiet time.Duration

	// Poll is the interval of reading the files without an event; DefaultPoll if zero.
	Poll time.Duration

	// Log receives errors of the system; nothing is logged if nil.
	Log *slog.Logger
}

// A Watcher watches files. It is safe for concurrent use.
type Watcher struct {
	c       Config
	notify  *fsnotify.Watcher // nil if the system provides none
	changed chan struct{}
	done    chan struct{}
	stop    sync.Once
	ended   sync.WaitGroup

	mu    sync.Mutex        // guards the fields below, and calls of follow
	named [sha256.Size]byte // the sum of c.Paths at the last call of Includes
	paths []string          // c.Paths and the files that they include
	last  [sha256.Size]byte
}

// New begins to watch. It returns an error without a path.
func New(c Config) (*Watcher, error) {
	if len(c.Paths) == 0 {
		return nil, errors.New("watch: paths: want at least one, got none")
	}
	if c.Quiet <= 0 {
		c.Quiet = DefaultQuiet
	}
	if c.Poll <= 0 {
		c.Poll = DefaultPoll
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{c: c, changed: make(chan struct{}, 1), done: make(chan struct{})}
	w.include()
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		c.Log.Warn("no file events from the system: polling files", "every", c.Poll.String(), "error", err)
	} else {
		w.notify = notify
		w.follow()
	}
	w.last = sum(w.paths)
	w.ended.Go(w.run)
	return w, nil
}

// Changed receives after the files changed. Changes before the next receive count as one. It
// returns nil if w is nil.
func (w *Watcher) Changed() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.changed
}

// Close ends the watch. It does nothing if w is nil or closed.
func (w *Watcher) Close() {
	if w == nil {
		return
	}
	w.stop.Do(func() { close(w.done) })
	w.ended.Wait()
}

func (w *Watcher) run() {
	var events chan fsnotify.Event
	var errs chan error
	if w.notify != nil {
		defer w.notify.Close()
		events, errs = w.notify.Events, w.notify.Errors
	}
	poll := time.NewTicker(w.c.Poll)
	defer poll.Stop()
	quiet := time.NewTimer(w.c.Quiet)
	quiet.Stop()
	defer quiet.Stop()
	for {
		select {
		case <-w.done:
			return
		case <-events:
			quiet.Reset(w.c.Quiet)
		case err := <-errs:
			w.c.Log.Warn("file events lost: a change may be reported late", "error", err)
		case <-poll.C:
			w.compare()
		case <-quiet.C:
			w.compare()
		}
	}
}

// compare reports a change if the content differs from the last time.
func (w *Watcher) compare() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.read() {
		return
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Forget drops changes that are not received yet, and those that only the next comparison would
// find. Call it before the files are read for another reason. It does nothing if w is nil.
func (w *Watcher) Forget() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read()
	select {
	case <-w.changed:
	default:
	}
}

// read reads the files and reports whether their content differs from the last time. It requires
// mu.
func (w *Watcher) read() (changed bool) {
	w.include()
	w.follow()
	now := sum(w.paths)
	changed, w.last = now != w.last, now
	return changed
}

// include finds the files to watch.
func (w *Watcher) include() {
	if w.c.Includes == nil {
		w.paths = w.c.Paths
	} else if now := sum(w.c.Paths); w.paths == nil || now != w.named {
		w.named, w.paths = now, append(slices.Clone(w.c.Paths), w.c.Includes()...)
	}
}

// follow watches the directories of the files, and those that links lead to, because a
// file is replaced in its directory.
func (w *Watcher) follow() {
	if w.notify == nil {
		return
	}
	for _, path := range w.paths {
		dirs := append(links(path), filepath.Dir(path))
		if real, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(real))
			walk(real, func(within string, dir bool) {
				if dir {
					dirs = append(dirs, filepath.Join(real, within))
				}
			})
		}
		for _, dir := range dirs {
			if !slices.Contains(w.notify.WatchList(), dir) {
				_ = w.notify.Add(dir) // a directory that does not exist yet is added at the next poll
			}
		}
	}
}

// links returns the directories of the links in a path. If one of them gets another target,
// the path leads to other files.
func links(path string) (dirs []string) {
	for dir := filepath.Dir(path); dir != path; path, dir = dir, filepath.Dir(dir) {
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// walk calls f with root, if it is a directory, and with what is in it and its
// subdirectories. The names are relative to root.
func walk(root string, f func(within string, dir bool)) {
	_ = filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil: // removed meanwhile
		case name == root && !e.IsDir():
		case name != root && e.IsDir() && strings.HasPrefix(e.Name(), "."):
			return fs.SkipDir
		default:
			within, _ := filepath.Rel(root, name)
			f(within, e.IsDir())
		}
		return nil
	})
}

// sum returns a hash of the content of files.
func sum(paths []string) (s [sha256.Size]byte) {
	h := sha256.New()
	for _, path := range paths {
		add(h, path)
		if real, err := filepath.EvalSymlinks(path); err == nil {
			walk(real, func(within string, dir bool) {
				if !dir {
					add(h, filepath.Join(path, within))
				}
			})
		}
	}
	h.Sum(s[:0])
	return s
}

// most is the maximum part of a file that is hashed, in bytes; a policy file is smaller.
const most = 64 << 20

func add(h hash.Hash, path string) {
	fmt.Fprintf(h, "%q ", path)
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return // reading a pipe would not end
	}
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = io.Copy(h, io.LimitReader(f, most))
}

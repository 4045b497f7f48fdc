// Package watch tells when files change: their content, however it was replaced.
//
//	w, err := watch.New(watch.Config{Paths: []string{"weir.yaml", "ratelimit/"}})
//	…
//	defer w.Close()
//	for range w.Changed() {
//		// read them again
//	}
//
// A file that is written in place, renamed over, or reached through a link that now
// leads elsewhere (as a mounted ConfigMap does) has changed if its bytes have. Where
// the system does not tell of changes, a look every few seconds does.
package watch

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// The defaults of a Config.
const (
	DefaultQuiet = 100 * time.Millisecond
	DefaultLook  = 5 * time.Second
)

// Config describes a Watcher. Paths is required.
type Config struct {
	// Paths are files and directories. Of a directory it is the files in it that
	// count, not those below.
	Paths []string

	// Quiet is how long the files have to be left alone before a change is told, so
	// that nobody reads half a file; DefaultQuiet if zero.
	Quiet time.Duration

	// Look is how often the files are looked at without being told; DefaultLook if
	// zero.
	Look time.Duration

	// Log is where trouble with watching is told; nowhere if nil.
	Log *slog.Logger
}

// A Watcher watches files. It is safe for concurrent use.
type Watcher struct {
	c       Config
	notify  *fsnotify.Watcher // nil if the system has no more of them
	changed chan struct{}
	done    chan struct{}
	stop    sync.Once
	ended   sync.WaitGroup
	last    [sha256.Size]byte
}

// New watches from now on. It fails if there is no path.
func New(c Config) (*Watcher, error) {
	if len(c.Paths) == 0 {
		return nil, errors.New("watch: paths: want at least one, got none")
	}
	if c.Quiet <= 0 {
		c.Quiet = DefaultQuiet
	}
	if c.Look <= 0 {
		c.Look = DefaultLook
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{c: c, changed: make(chan struct{}, 1), done: make(chan struct{})}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		c.Log.Warn("the system does not tell of changes: files are looked at now and then", "every", c.Look.String(), "error", err)
	} else {
		w.notify = notify
		w.follow()
	}
	w.last = w.sum()
	w.ended.Go(w.run)
	return w, nil
}

// Changed receives after the files changed. Changes that nobody received yet are one.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Close ends the watch. Closing twice changes nothing.
func (w *Watcher) Close() {
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
	look := time.NewTicker(w.c.Look)
	defer look.Stop()
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
			w.c.Log.Warn("a change may be noticed late", "error", err)
		case <-look.C:
			w.compare()
		case <-quiet.C:
			w.compare()
		}
	}
}

// compare tells if the files are others than the last time.
func (w *Watcher) compare() {
	w.follow()
	sum := w.sum()
	if sum == w.last {
		return
	}
	w.last = sum
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// follow asks to be told about the directories in which the files stand, and those to
// which links lead: it is there that a file is replaced.
func (w *Watcher) follow() {
	if w.notify == nil {
		return
	}
	for _, path := range w.c.Paths {
		dirs := []string{filepath.Dir(path)}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(real))
			if info, err := os.Stat(real); err == nil && info.IsDir() {
				dirs = append(dirs, real)
			}
		}
		for _, dir := range dirs {
			if !slices.Contains(w.notify.WatchList(), dir) {
				_ = w.notify.Add(dir) // one that is not there yet is asked for at the next look
			}
		}
	}
}

// sum is a fingerprint of the files as they are.
func (w *Watcher) sum() (s [sha256.Size]byte) {
	h := sha256.New()
	for _, path := range w.c.Paths {
		add(h, path)
		entries, err := os.ReadDir(path)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if !e.IsDir() {
				add(h, filepath.Join(path, e.Name()))
			}
		}
	}
	h.Sum(s[:0])
	return s
}

// most is how much of a file counts: more than a policy file may have.
const most = 64 << 20

func add(h hash.Hash, path string) {
	fmt.Fprintf(h, "%q ", path)
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return // a pipe would be read for ever
	}
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = io.Copy(h, io.LimitReader(f, most))
}

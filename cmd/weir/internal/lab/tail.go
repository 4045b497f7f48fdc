package lab

import (
	"context"
	"io"
	"os"
	"time"
)

// pollEvery is the time between two looks at a file that does not grow.
const pollEvery = 250 * time.Millisecond

// A tail reads a growing file, across its rotation and truncation. It ends when its context is
// done.
type tail struct {
	ctx  context.Context
	path string
	f    *os.File
	tick *time.Ticker
}

func openTail(ctx context.Context, path string) (*tail, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &tail{ctx, path, f, time.NewTicker(pollEvery)}, nil
}

func (t *tail) close() {
	t.tick.Stop()
	_ = t.f.Close() // read only
}

// Read implements io.Reader.
func (t *tail) Read(b []byte) (int, error) {
	for {
		moved, err := t.moved() // before Read, so that nothing is written between the two
		if err != nil {
			return 0, err
		}
		n, err := t.f.Read(b)
		if n > 0 || err != nil && err != io.EOF {
			return n, err
		}
		if moved {
			if err := t.reopen(); err != nil {
				return 0, err
			}
			continue
		}
		select {
		case <-t.ctx.Done():
			return 0, io.EOF
		case <-t.tick.C:
		}
	}
}

// moved reports whether the path has another file, or the file is shorter than what was read.
func (t *tail) moved() (bool, error) {
	was, err := t.f.Stat()
	if err != nil {
		return false, err
	}
	at, err := t.f.Seek(0, io.SeekCurrent)
	if err != nil || was.Size() < at {
		return err == nil, err
	}
	now, err := os.Stat(t.path)
	return err == nil && !os.SameFile(was, now), nil // between the files of a rotation there is none
}

func (t *tail) reopen() error {
	f, err := os.Open(t.path)
	if os.IsNotExist(err) {
		return nil
	}
	if err == nil {
		_ = t.f.Close() // read only
		t.f = f
	}
	return err
}

// until returns a reader of in that ends when ctx is done. Then it leaves a read behind.
func until(ctx context.Context, in io.Reader) io.Reader {
	out, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, in)
		_ = w.CloseWithError(err) // is nil
	}()
	context.AfterFunc(ctx, func() { _ = w.Close() }) // is nil
	return out
}

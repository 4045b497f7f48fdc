package weirfile

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// DefaultEvery is how often Follow looks at a file.
const DefaultEvery = time.Second

// A Follower keeps a program at what a file says. Path and Adopt are required.
type Follower struct {
	Path string

	// Every is how often the file is looked at; DefaultEvery if zero.
	Every time.Duration

	// Adopt takes what a file says into use, as guard.Registry.Configure does. It may
	// refuse it.
	Adopt func(*File) error

	// Trouble, if not nil, is told why the file is not followed at the moment, once for
	// each reason, and nil when it is followed again.
	Trouble func(error)
}

// Run adopts the file, and again whenever its bytes have changed, until ctx is done. A
// file that cannot be read, is not good or is refused leaves the one before in use, and
// is tried again when it changes. It returns the cause of ctx's end.
//
// A file that is written in place may be read while half of it is there: that is refused
// as any broken file is, if it is one. To be safe, write another and rename it.
func (f *Follower) Run(ctx context.Context) error {
	if f.Path == "" || f.Adopt == nil {
		return errors.New("weirfile: follow: want Path and Adopt")
	}
	every := f.Every
	if every <= 0 {
		every = DefaultEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last [sha256.Size]byte
	known, trouble := false, ""
	for {
		data, err := read(f.Path)
		sum := sha256.Sum256(data)
		if err == nil && (!known || sum != last) {
			known, last = true, sum
			err = f.adopt(data)
			f.tell(err, &trouble)
		} else if err != nil {
			known = false // what is there again is read again
			f.tell(err, &trouble)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (f *Follower) adopt(data []byte) error {
	file, err := Parse(f.Path, data)
	if err != nil {
		return err
	}
	return f.Adopt(file)
}

// tell tells of trouble, or of its end, if that is news.
func (f *Follower) tell(err error, last *string) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == *last {
		return
	}
	*last = text
	if f.Trouble != nil {
		f.Trouble(err)
	}
}

// read reads a file up to one byte more than a good one has.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("weirfile: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("weirfile: %w", err)
	}
	return data, nil
}

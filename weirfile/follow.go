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

// DefaultEvery is the default of Follower.Every.
const DefaultEvery = time.Second

// A Follower adopts a file whenever it changes. Path and Adopt are required.
type Follower struct {
	Path string

	// Every is the polling interval; DefaultEvery if zero.
	Every time.Duration

	// Adopt puts the values of a file into use, as guard.Registry.Configure does. An
	// error keeps the values in use.
	Adopt func(*File) error

	// Trouble, if not nil, is called with the reason when the file cannot be followed,
	// once for each reason, and with nil when it can be followed again.
	Trouble func(error)
}

// Run adopts the file, and again whenever its content changes, until ctx is done. If a
// file cannot be read, is invalid or is refused, the one before stays in use until the
// next change. It returns the cause of ctx.
//
// A file that is written in place may be read while it is incomplete. Write another
// file and rename it to avoid this.
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
			f.report(err, &trouble)
		} else if err != nil {
			known = false // what is there again is read again
			f.report(err, &trouble)
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

// report calls Trouble if err differs from the last one.
func (f *Follower) report(err error, last *string) {
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

// read reads a file up to one byte more than a valid one has.
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

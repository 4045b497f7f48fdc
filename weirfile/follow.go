package weirfile

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/floodweir/weir/weirfile/internal/table"
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

// Run adopts the file, and again whenever its content changes or an included file has another
// size or time, until ctx is done. If a
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
	var last, named [sha256.Size]byte
	var includes []string
	known, trouble := false, ""
	for {
		data, err := read(f.Path, MaxSize)
		sum := sha256.Sum256(data)
		if err == nil && sum != named {
			named, includes = sum, Includes(f.Path)
		}
		sum = withFiles(sum, includes)
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
	file, err := parse(f.Path, data, readTable)
	if err != nil {
		return err
	}
	return f.Adopt(file)
}

// withFiles adds the sizes and times of files to a sum.
func withFiles(sum [sha256.Size]byte, names []string) [sha256.Size]byte {
	for _, name := range names {
		size, at := int64(-1), int64(0)
		if info, err := os.Stat(name); err == nil {
			size, at = info.Size(), info.ModTime().UnixNano()
		}
		sum = sha256.Sum256(fmt.Appendf(sum[:], "%q %d %d", name, size, at))
	}
	return sum
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

func readTable(path string) ([]byte, error) { return read(path, table.MaxSize) }

// read reads a file up to one byte more than a valid one has.
func read(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("weirfile: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("weirfile: %w", err)
	}
	return data, nil
}

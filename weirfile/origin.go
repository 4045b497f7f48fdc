package weirfile

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/weirfile/internal/table"
	"github.com/floodweir/weir/weirfile/published"
)

// A fileSource reads a file.
type fileSource struct {
	path  string
	every time.Duration

	last     [sha256.Size]byte // of the last text and its included files
	named    [sha256.Size]byte // of the text that names includes
	includes []string
	known    bool // last is set
}

func (s *fileSource) load(_ context.Context, adopt func(revision) error) error {
	err, failed := s.poll(adopt)
	return cmp.Or(err, failed)
}

func (s *fileSource) follow(ctx context.Context, adopt func(revision) error, observe func(error)) {
	every := s.every
	if every <= 0 {
		every = DefaultEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err, _ := s.poll(adopt)
		observe(err)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// poll reads the file, and passes it to adopt if it has changed. It returns the errors of both.
func (s *fileSource) poll(adopt func(revision) error) (err, failed error) {
	data, err := read(s.path, MaxSize)
	if err != nil {
		s.known = false // what is there again is read again
		return err, nil
	}
	sum := sha256.Sum256(data)
	if sum != s.named {
		s.named, s.includes = sum, Includes(s.path)
	}
	if sum = withFiles(sum, s.includes); s.known && sum == s.last {
		return nil, nil
	}
	s.known, s.last = true, sum
	return nil, adopt(revision{name: s.path, data: data, readTable: readTable})
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

func readTable(path string) ([]byte, error) { return read(path, table.MaxSize) }

// read reads a file up to one byte more than a valid one has.
func read(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("weirfile: %w", err)
	}
	defer f.Close()
	var data bytes.Buffer
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		data.Grow(int(min(info.Size(), most)) + bytes.MinRead) // or it is copied as it grows
	}
	if _, err := data.ReadFrom(io.LimitReader(f, most+1)); err != nil {
		return nil, fmt.Errorf("weirfile: %w", err)
	}
	return data.Bytes(), nil
}

// A redisSource reads the published versions in a Redis.
type redisSource struct {
	conn  redisstore.Conn
	every time.Duration
	from  int64 // the version that load adopted; 0: none
}

func (s *redisSource) load(ctx context.Context, adopt func(revision) error) error {
	v, err := published.Newest(ctx, s.conn, func(v published.Version) error { return adopt(revisionOf(v)) })
	if err == nil {
		s.from = v.Number
	}
	return err
}

func (s *redisSource) follow(ctx context.Context, adopt func(revision) error, observe func(error)) {
	p := published.Poller{
		Conn: func() redisstore.Conn { return s.conn }, Every: s.every, Observe: observe,
		Adopt: func(v published.Version) {
			_ = adopt(revisionOf(v)) // reported with observe
			observe(nil)
		},
	}
	p.Run(ctx, s.from)
}

func revisionOf(v published.Version) revision {
	return revision{name: fmt.Sprintf("version %d", v.Number), number: v.Number, data: []byte(v.Text)}
}

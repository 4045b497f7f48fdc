package memstore

import (
	"context"
	"encoding/binary"
	"hash/crc64"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore/internal/snapfile"
)

// FuzzLoad loads what is between the header and the checksum of a snapshot,
// behind a right header and before a right checksum. Whatever it is, it is loaded
// within MaxKeys or refused; the store can write what it has loaded, and load
// that again.
func FuzzLoad(f *testing.F) {
	path := filepath.Join(f.TempDir(), "weir.snapshot")
	now := int64(1_767_225_600_000_000)
	config := Config{MaxKeys: 50, Clock: func() int64 { return now }, Snapshot: path}
	s, err := New(config)
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{"2/24h", "1000003/24h", "2/24h fixed_window", "2/24h sliding_log", "2 concurrency lease 24h", "2/24h calendar Asia/Shanghai", "5/24h burst 9 initial 1"} {
		l, err := weir.ParseLimit(text)
		if err != nil {
			continue // not in the grammar: no such seed
		}
		for _, verb := range []weir.Verb{weir.Take, weir.Reserve} {
			r := weir.Request{Verb: verb, Key: "k", Limit: l, N: 1, ID: "i", TTL: time.Hour}
			if _, err := s.Do(context.Background(), r); err != nil {
				f.Fatal(err)
			}
		}
	}
	many := weir.Request{Verb: weir.Charge, Key: "k", Limit: weir.MustLimit("2/24h fixed_window"), N: 2 * maxUnits}
	if _, err := s.Do(context.Background(), many); err != nil {
		f.Fatal(err)
	}
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	const headerLen = snapfile.HeaderLen + 3*8 // the key of the hash, and the instant
	header, body := file[:headerLen], file[headerLen:len(file)-snapfile.SumLen]
	f.Add(body, int64(0))
	f.Add(body, int64(3600_000_000))
	f.Add([]byte{sectionEnd}, int64(0))
	f.Fuzz(func(t *testing.T, body []byte, back int64) {
		config := config
		config.Snapshot = filepath.Join(t.TempDir(), "weir.snapshot")
		config.Clock = func() int64 { return now - back&(1<<50-1) }
		file := append(append([]byte(nil), header...), body...)
		file = binary.LittleEndian.AppendUint64(file, crc64.Checksum(file, crc64.MakeTable(crc64.ECMA)))
		if err := os.WriteFile(config.Snapshot, file, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := New(config)
		if err != nil {
			return
		}
		if st := s.Stats(); st.Used > st.MaxKeys || st.Used < st.Keys {
			t.Errorf("%+v, want at most MaxKeys used", st)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := New(config)
		if err != nil {
			t.Fatalf("the store can't load what it wrote: %v", err)
		}
		again.Close()
	})
}

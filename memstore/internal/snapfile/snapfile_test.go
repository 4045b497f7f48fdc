package snapfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floodweir/weir/memstore/internal/snapfile"
)

// TestFile checks that what was written is read, and nothing behind it.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot")
	for _, text := range []string{"first", "second", strings.Repeat("large", 1<<19)} {
		err := snapfile.Replace(path, func(w *snapfile.Writer) {
			w.Int(-7)
			n, done := 0, w.Count()
			for range 3 {
				w.Word(1 << 63)
				n++
			}
			done(n)
			w.Text(text)
			w.Flush()
			w.Byte('!')
		})
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := snapfile.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		if i, n := r.Int(), r.Int(); i != -7 || n != 3 {
			t.Fatalf("read %d and %d, want -7 and 3", i, n)
		}
		for range 3 {
			if u := r.Word(); u != 1<<63 {
				t.Errorf("Word = %x, want 1<<63", u)
			}
		}
		if got := string(r.Bytes(int64(len(text)))); got != text || string(r.Bytes(1)) != "!" || r.Len() != 0 || r.Err != nil {
			t.Errorf("read %.10q, %d left, %v, want %.10q and nothing", got, r.Len(), r.Err, text)
		}
		if u := r.Word(); u != 0 || !errors.Is(r.Err, snapfile.ErrDamaged) {
			t.Errorf("behind the end: %d, %v, want ErrDamaged", u, r.Err)
		}
		for i := range min(len(file), 100) { // every changed bit is an error
			file[i] ^= 4
			if _, err := snapfile.NewReader(file); err == nil {
				t.Errorf("byte %d was changed, and the reader accepted it", i)
			}
			file[i] ^= 4
		}
	}
	if names, _ := filepath.Glob(filepath.Dir(path) + "/*"); len(names) != 1 {
		t.Errorf("%q are left, want the file alone", names)
	}
	if err := snapfile.Replace(filepath.Join(path, "below a file"), func(*snapfile.Writer) {}); err == nil {
		t.Error("a file where none can be: no error")
	}
}

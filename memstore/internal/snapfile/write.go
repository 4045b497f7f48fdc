package snapfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc64"
	"os"
	"path/filepath"
	"runtime"
)

// A Writer writes the content of a file. Replace returns its error.
type Writer struct {
	file *os.File
	buf  bytes.Buffer
	sum  uint64
	err  error
}

// Replace replaces the file at path by the content that write writes. Only its owner can
// read the file.
func Replace(path string, write func(*Writer)) error {
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w := &Writer{file: f}
	w.Text(magic)
	w.Byte(version)
	write(w)
	w.flush()
	w.Word(w.sum)
	w.flush()
	if err = w.err; err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	return err
}

// syncDir makes a rename in dir durable, if directories can be synced.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (w *Writer) flush() {
	w.sum = crc64.Update(w.sum, table, w.buf.Bytes())
	if w.err == nil {
		_, w.err = w.file.Write(w.buf.Bytes())
	}
	w.buf.Reset()
}

// Flush writes the buffer to the file if it is large. The numbers that Count began must
// be done.
func (w *Writer) Flush() {
	if w.buf.Len() > 1<<20 {
		w.flush()
	}
}

// Byte writes one byte.
func (w *Writer) Byte(b byte) { w.buf.WriteByte(b) }

// Text writes the bytes of s.
func (w *Writer) Text(s string) { w.buf.WriteString(s) }

// Word writes a number.
func (w *Writer) Word(u uint64) {
	w.buf.Write(binary.LittleEndian.AppendUint64(w.buf.AvailableBuffer(), u))
}

// Int writes a number.
func (w *Writer) Int(i int64) { w.Word(uint64(i)) }

// Count writes a number that the caller sets later, by done.
func (w *Writer) Count() (done func(n int)) {
	at := w.buf.Len()
	w.Int(0)
	return func(n int) { binary.LittleEndian.PutUint64(w.buf.Bytes()[at:], uint64(n)) }
}

package weirfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// copyHeader is the first line of a copy: it has the number of the version.
const copyHeader = "# version %d, the last in force: a copy for the start without the source\n"

// loadCopy puts the copy into force.
func (f *Follower) loadCopy() error {
	data, err := read(f.Copy, MaxSize+int64(len(copyHeader))+20)
	if err != nil {
		return err
	}
	r := revision{name: f.Copy, data: data}
	if line, _, ok := bytes.Cut(data, []byte("\n")); ok {
		_, _ = fmt.Sscanf(string(line), "# version %d,", &r.number) // 0 if a user wrote the file
	}
	if f.Path != "" {
		r.readTable = readTable
	}
	if err := f.use(r); err != nil {
		return err
	}
	f.saved = string(data)
	return nil
}

// save writes r to the copy. A reader sees the former text or the new one.
func (f *Follower) save(r revision) error {
	if f.Copy == "" {
		return nil
	}
	text := fmt.Sprintf(copyHeader, r.number) + string(r.data)
	if text == f.saved {
		return nil
	}
	if err := replaceFile(f.Copy, text); err != nil {
		return fmt.Errorf("weirfile: copy not saved: %w", err)
	}
	f.saved = text
	return nil
}

// replaceFile writes a file that only the user may read, and renames it to path.
func replaceFile(path, text string) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	if err == nil {
		err = file.Sync()
	}
	if e := file.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name()) // the error before says more
	}
	return err
}

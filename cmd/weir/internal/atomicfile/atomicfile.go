// Package atomicfile replaces files: readers see the old content or the new one, also after a
// crash.
//
//	err := atomicfile.Write("weir.conf", text, 0o600)
package atomicfile

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Prefix begins the names of temporary files. A crash may leave one. Patterns such as *.conf do
// not match it.
const Prefix = ".weir-"

// Write replaces or creates a file with these permissions, regardless of the umask. It writes a
// temporary file in the same directory, which only the user can read until it is complete.
func Write(name string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), Prefix+"*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync() // a rename may reach the disk before the data
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // err is the cause
	}
	return err
}

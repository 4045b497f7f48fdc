package importer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/floodweir/weir"
)

// A Result is what an import came to.
type Result struct {
	// Text is the policy file.
	Text string
	// Policies is how many policies it has.
	Policies int
	// Listed is what could not be expressed, in the order of the input.
	Listed []Item
}

// An Item is something that could not be expressed.
type Item struct {
	File string
	Line int    // from 1; 0 if it is not known
	What string // as it stands there
	Why  string
}

// String is "file:line: what: why".
func (i Item) String() string { return at(i.File, i.Line) + ": " + i.What + ": " + i.Why }

// An Error is input that cannot be imported. It wraps weir.ErrInvalid.
type Error struct {
	File string
	Line int // from 1; 0 for the file as a whole
	Want string
}

// Error is "file:line: what is wrong".
func (e *Error) Error() string { return at(e.File, e.Line) + ": " + e.Want }

// Unwrap is weir.ErrInvalid.
func (e *Error) Unwrap() error { return weir.ErrInvalid }

func at(file string, line int) string {
	if line == 0 {
		return printable(file)
	}
	return fmt.Sprintf("%s:%d", printable(file), line)
}

// Files is how files are read. The zero value reads those of this machine.
type Files struct {
	// Read returns the content of a file.
	Read func(name string) ([]byte, error)
	// Glob returns the files that fit a pattern, in order.
	Glob func(pattern string) ([]string, error)
}

// Bounds of what is read.
const (
	maxFile  = 16 << 20 // of one file
	maxFiles = 10_000   // that one import reads
	maxAll   = 64 << 20 // of all of them
)

var errLarge = errors.New("larger than is read")

func (f *Files) setDefaults() {
	if f.Read == nil {
		f.Read = readFile
	}
	if f.Glob == nil {
		f.Glob = filepath.Glob
	}
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = &os.PathError{Op: "read", Path: name, Err: errLarge}
	}
	return data, err
}

package nginxconf

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Files sets how files are read. The zero value reads those of this machine.
type Files struct {
	// Read returns the content of a file.
	Read func(name string) ([]byte, error)
	// Glob returns the files that match a pattern, in order.
	Glob func(pattern string) ([]string, error)
	// Roots says where the files of an absolute path are: DIR is the root directory of a
	// copied machine, and PREFIX=DIR a copy of the directory PREFIX, such as
	// /etc/nginx=conf. The longest PREFIX counts.
	Roots []string
}

// CheckRoot returns an error if r is not a value of Files.Roots.
func CheckRoot(r string) error {
	prefix, dir, found := strings.Cut(r, "=")
	if r == "" || found && (!strings.HasPrefix(prefix, "/") || dir == "") {
		return fmt.Errorf("root %q: want DIR, or PREFIX=DIR such as /etc/nginx=conf", r)
	}
	return nil
}

// locate returns where the file or pattern of an absolute path is.
func (f *Files) locate(path string) string {
	found, longest := path, -1
	for _, r := range f.Roots {
		prefix, dir, ok := strings.Cut(r, "=")
		if !ok {
			prefix, dir = "", r
		}
		prefix = strings.TrimRight(prefix, "/")
		if rest, ok := strings.CutPrefix(path, prefix); ok && strings.HasPrefix(rest, "/") && len(prefix) > longest {
			found, longest = filepath.Join(dir, rest), len(prefix)
		}
	}
	return found
}

// Bounds of what is read.
const (
	maxFile     = 16 << 20 // of one file of this machine
	maxFiles    = 10_000   // that one Read reads
	maxAll      = 64 << 20 // of all of them
	maxIncludes = 32       // within each other
	maxBlocks   = 64       // within each other
)

var errLarge = errors.New("larger than is read")

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

// Read reads a file and its includes, relative to its directory, as nginx does. The
// directives of an include replace it. absent, if not nil, is called for each file that
// cannot be read, and for a pattern that matches no file, with the include that names it.
// Such an error wraps os.ErrNotExist if there is no file.
func Read(name string, files Files, absent func(include *Directive, err error)) ([]*Directive, error) {
	if files.Read == nil {
		files.Read = readFile
	}
	if files.Glob == nil {
		files.Glob = filepath.Glob
	}
	if absent == nil {
		absent = func(*Directive, error) {}
	}
	r := &reader{files: files, dir: filepath.Dir(name), absent: absent}
	return r.file(name, 0)
}

// A reader reads a file and its includes.
type reader struct {
	files  Files
	dir    string // which includes are relative to: that of the first file
	read   int    // files
	bytes  int
	absent func(include *Directive, err error)
}

func (r *reader) file(name string, depth int) ([]*Directive, error) {
	data, err := r.files.Read(name)
	if err != nil {
		return nil, err
	}
	if r.read++; r.read > maxFiles {
		return nil, &Error{File: name, Want: fmt.Sprintf("want at most %d files", maxFiles)}
	}
	if r.bytes += len(data); r.bytes > maxAll {
		return nil, &Error{File: name, Want: fmt.Sprintf("want at most %d bytes in all files", maxAll)}
	}
	p := &parser{lexer: lexer{name: name, text: string(data), line: 1}, r: r, depth: depth}
	return p.block(0)
}

// include reads the files of an include directive.
func (r *reader) include(d *Directive, depth int) (all []*Directive, err error) {
	if len(d.Args) != 1 {
		return nil, &Error{d.File, d.Line, "include: want one file or pattern"}
	}
	if depth >= maxIncludes {
		return nil, &Error{d.File, d.Line, fmt.Sprintf("include: want at most %d files that include each other", maxIncludes)}
	}
	pattern := d.Args[0]
	if filepath.IsAbs(pattern) {
		pattern = r.files.locate(pattern)
	} else {
		pattern = filepath.Join(r.dir, pattern)
	}
	names := []string{pattern}
	if strings.ContainsAny(pattern, "*?[") {
		if names, err = r.files.Glob(pattern); err != nil {
			return nil, &Error{d.File, d.Line, fmt.Sprintf("include %s: %v", short(d.Args[0]), err)}
		}
		if len(names) == 0 {
			r.absent(d, fmt.Errorf("no file matches %s: %w", pattern, os.ErrNotExist))
		}
	}
	for _, name := range names {
		ds, err := r.file(name, depth+1)
		if err != nil {
			if _, broken := err.(*Error); broken {
				return nil, err
			}
			r.absent(d, err)
			continue
		}
		all = append(all, ds...)
	}
	return all, nil
}

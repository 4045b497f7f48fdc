package ratelimit

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/floodweir/weir/weirfile/strict"
)

// The largest files that are read.
const (
	// MaxSize is the largest file, in bytes.
	MaxSize = 4 << 20
	// MaxFiles is the largest number of files of a directory.
	MaxFiles = 1000
	// maxAll is the size of all files together.
	maxAll = 16 * MaxSize
)

// Load reads a file, or the files of a directory and its subdirectories that end in
// .yaml or .yml. It skips names that begin with a dot, and follows links only to files, so
// that a mounted ConfigMap is read once. Two files with one domain are an error.
//
// It returns Errors, or an error of package os if something cannot be read.
func Load(path string) (*Config, error) { return load(path, false) }

// LoadMerged is Load, but it merges files with the same domain, in the order of their
// names.
func LoadMerged(path string) (*Config, error) { return load(path, true) }

func load(path string, merge bool) (*Config, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("ratelimit: %s: want a file, or a directory with files that end in .yaml or .yml: %w", path, err)
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = filesOf(path); err != nil {
			return nil, err
		}
	}
	c := &Config{domains: map[string]*Domain{}}
	var errs Errors
	all := 0
	for _, name := range files {
		data, err := read(name)
		if err != nil {
			return nil, err
		}
		if all += len(data); all > maxAll {
			return nil, Errors{{File: name, Line: 1, Column: 1, Want: fmt.Sprintf("want at most %d bytes in all files of %s", maxAll, path)}}
		}
		errs = append(errs, c.read(name, data, merge, MaxSize)...)
	}
	if len(errs) > 0 {
		return nil, errs.Cut()
	}
	return c, nil
}

// Parse reads data, the content of the file name.
func Parse(name string, data []byte) (*Config, error) {
	c := &Config{domains: map[string]*Domain{}}
	if errs := c.read(name, data, false, MaxSize); len(errs) > 0 {
		return nil, errs.Cut()
	}
	return c, nil
}

// A Text is the content of a file, or a domain that a control plane sent.
type Text struct {
	Name string
	Data []byte
}

// ParseAll reads texts of a program, merged as by LoadMerged if merge. Its errors have no
// lines. Without texts there are no domains.
func ParseAll(texts []Text, merge bool) (*Config, error) {
	c := &Config{domains: map[string]*Domain{}}
	var errs Errors
	for _, t := range texts {
		errs = append(errs, c.read(t.Name, t.Data, merge, maxAll)...)
	}
	if len(errs) == 0 {
		return c, nil
	}
	for _, e := range errs {
		e.Line, e.Column = 0, 0
	}
	return nil, errs.Cut()
}

// read adds a file of at most maxSize bytes to c.
func (c *Config) read(name string, data []byte, merge bool, maxSize int) Errors {
	c.files = append(c.files, name)
	text := sha256.Sum256(data)
	c.sum = sha256.Sum256(append(c.sum[:], text[:]...))
	d := decoder{strict.Parse(name, data, strict.Config{
		MaxSize: maxSize, Empty: "want domain and descriptors, got an empty file", Loose: true,
	})}
	if root := d.Root(); root.There() {
		d.domain(root, c, merge)
	}
	return d.Errors()
}

// filesOf returns the files of a directory, in the order of their names.
func filesOf(dir string) ([]string, error) {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("ratelimit: %w", err)
	}
	var files []string
	err = filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == root:
			return nil
		case strings.HasPrefix(e.Name(), "."):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir() || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(name)):
			return nil
		}
		if info, err := os.Stat(name); err != nil || info.IsDir() {
			return err
		}
		within, _ := filepath.Rel(root, name)
		files = append(files, filepath.Join(dir, within))
		if len(files) > MaxFiles {
			return Errors{{File: dir, Line: 1, Column: 1, Want: fmt.Sprintf("want a directory with at most %d files", MaxFiles)}}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("ratelimit: %w", err)
	}
	if len(files) == 0 {
		return nil, Errors{{File: dir, Line: 1, Column: 1, Want: "want a directory with files that end in .yaml or .yml, got none"}}
	}
	return files, nil
}

func read(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("ratelimit: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("ratelimit: %w", err)
	}
	return data, nil
}

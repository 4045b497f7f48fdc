package weave

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// An overlay is the content of a file for the go command's flag -overlay: a replacement
// for each file, "" to remove it. Paths are absolute.
type overlay struct {
	Replace map[string]string

	// Added lists the new files, which replace none of the user's. The go command
	// ignores this field.
	Added []string `json:",omitempty"`
}

// readOverlay reads an overlay of the user. Paths in it are relative to dir.
func readOverlay(file, dir string) (overlay, error) {
	o := overlay{Replace: map[string]string{}}
	if file == "" {
		return o, nil
	}
	var in overlay
	data, err := os.ReadFile(absolute(file, dir))
	if err == nil {
		err = json.Unmarshal(data, &in)
	}
	if err != nil {
		return o, fmt.Errorf("weave: -overlay %s: %w", file, err)
	}
	for path, by := range in.Replace {
		if by != "" {
			by = absolute(by, dir)
		}
		o.Replace[absolute(path, dir)] = by
	}
	return o, nil
}

// contents returns the contents of the replaced files.
func (o overlay) contents() (map[string][]byte, error) {
	all := map[string][]byte{}
	for path, by := range o.Replace {
		if by == "" || !strings.HasSuffix(path, ".go") {
			continue
		}
		data, err := os.ReadFile(by)
		if err != nil {
			return nil, err
		}
		all[path] = data
	}
	return all, nil
}

// read returns a file as the go command reads it.
func (o overlay) read(path string) ([]byte, error) {
	if by, ok := o.Replace[path]; ok {
		if by == "" {
			return nil, &os.PathError{Op: "open", Path: path, Err: os.ErrNotExist}
		}
		path = by
	}
	return os.ReadFile(path)
}

// with returns o with the replacements of more, which take precedence.
func (o overlay) with(more map[string]string, added []string) overlay {
	sum := overlay{Replace: map[string]string{}, Added: added}
	for path, by := range o.Replace {
		sum.Replace[path] = by
	}
	for path, by := range more {
		sum.Replace[path] = by
	}
	return sum
}

func (o overlay) json() []byte {
	data, _ := json.Marshal(o) // of a map of strings
	return data
}

func absolute(path, dir string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

package weave

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/atomicfile"
)

// Entries are touched when they are used, at most once in touchEvery, and removed when
// they were not for keepFor; who weaves looks for those once in a day.
const (
	keepFor    = 5 * 24 * time.Hour
	touchEvery = time.Hour
	trimEvery  = 24 * time.Hour
)

// A cache is a directory of files, named after the hash of their content or of their
// inputs.
type cache struct {
	dir  string
	temp bool // that it is removed at the end
}

// openCache opens the cache in dir, or in a temporary directory if it cannot be
// created.
func openCache(dir string) (*cache, error) {
	if dir == "" {
		base, err := os.UserCacheDir()
		if err == nil {
			dir = filepath.Join(base, "weir", "weave")
		}
	}
	if dir != "" && filepath.IsAbs(dir) && os.MkdirAll(dir, 0o700) == nil {
		if f, err := os.CreateTemp(dir, atomicfile.Prefix+"*"); err == nil {
			f.Close()
			os.Remove(f.Name())
			c := &cache{dir: dir}
			c.trim(time.Now())
			return c, nil
		}
	}
	dir, err := os.MkdirTemp("", "weir-weave-")
	if err != nil {
		return nil, fmt.Errorf("weave: no place for woven files: %w", err)
	}
	return &cache{dir, true}, nil
}

func (c *cache) close() {
	if c.temp {
		os.RemoveAll(c.dir)
	}
}

// keep stores data in a file named after its hash, and returns the path.
func (c *cache) keep(data []byte, ext string) (string, error) {
	return c.keepAs(digest(data)+ext, data)
}

// digest returns the hash that names a file.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

func (c *cache) keepAs(name string, data []byte) (string, error) {
	path := filepath.Join(c.dir, name)
	if old, err := os.ReadFile(path); err == nil && string(old) == string(data) {
		c.touch(path)
		return path, nil
	}
	if err := atomicfile.Write(path, data, 0o600); err != nil {
		return "", fmt.Errorf("weave: %w", err)
	}
	return path, nil
}

// touch marks a file as used. It reports whether the file exists.
func (c *cache) touch(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	if now := time.Now(); now.Sub(info.ModTime()) > touchEvery {
		os.Chtimes(path, now, now) // if it cannot be, the file is made again some day
	}
	return true
}

// recall reads the result stored under a name. It reports whether all of its files
// exist and are complete: a crash may leave empty files.
func (c *cache) recall(name string) (woven, bool) {
	path := filepath.Join(c.dir, name+".woven")
	data, err := os.ReadFile(path)
	var w woven
	if err != nil || json.Unmarshal(data, &w) != nil {
		return woven{}, false
	}
	for _, file := range w.Replace {
		data, err := os.ReadFile(file)
		if err != nil || filepath.Dir(file) != c.dir || filepath.Base(file) != digest(data)+filepath.Ext(file) || !c.touch(file) {
			return woven{}, false
		}
	}
	c.touch(path)
	return w, true
}

// remember stores the result of weaving.
func (c *cache) remember(name string, w woven) error {
	data, err := json.Marshal(w)
	if err == nil {
		_, err = c.keepAs(name+".woven", data)
	}
	return err
}

// trim removes unused files, at most once a day.
func (c *cache) trim(now time.Time) {
	mark := filepath.Join(c.dir, "trimmed")
	if info, err := os.Stat(mark); err == nil && now.Sub(info.ModTime()) < trimEvery {
		return
	}
	if os.WriteFile(mark, nil, 0o600) != nil || os.Chtimes(mark, now, now) != nil {
		return
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		ours := strings.HasPrefix(e.Name(), atomicfile.Prefix)
		switch filepath.Ext(e.Name()) {
		case ".go", ".json", ".woven":
			ours = true
		}
		if info, err := e.Info(); ours && err == nil && now.Sub(info.ModTime()) > keepFor {
			os.Remove(filepath.Join(c.dir, e.Name()))
		}
	}
}

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// ServeHTTP serves the tags of the clone with the protocol of module proxies. Modules of others
// get status 404, so the go command asks the next proxy of its list.
func (r *release) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	escaped, query, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/@")
	path, err := module.UnescapePath(escaped)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	dir, ok := moduleDir(path)
	if !ok {
		http.NotFound(w, req)
		return
	}
	content, err := r.answer(req, dir, query)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Write(content)
}

// answer returns the response to a query such as v/list or v/v0.1.0.zip.
func (r *release) answer(req *http.Request, dir, query string) ([]byte, error) {
	ctx := req.Context()
	prefix := strings.TrimSuffix(tag(dir, "v"), "v")
	if query == "v/list" {
		tags, err := git(ctx, r.dir, "tag", "--list", prefix+"v*")
		return []byte(strings.ReplaceAll("\n"+tags, "\n"+prefix, "\n")), err
	}
	name := strings.TrimPrefix(query, "v/")
	version, kind := "", ""
	for _, k := range []string{".info", ".mod", ".zip"} {
		if v, ok := strings.CutSuffix(name, k); ok {
			version, kind = v, k
		}
	}
	if semver.Canonical(version) != version || version == "" {
		return nil, fmt.Errorf("unknown query %q", query)
	}
	commit, err := git(ctx, r.dir, "rev-parse", "--verify", "-q", "refs/tags/"+tag(dir, version)+"^{commit}")
	if err != nil {
		return nil, fmt.Errorf("unknown revision %s", tag(dir, version))
	}
	switch kind {
	case ".info":
		at, err := git(ctx, r.dir, "log", "-1", "--format=%ct", commit)
		if err != nil {
			return nil, err
		}
		var seconds int64
		if _, err := fmt.Sscan(at, &seconds); err != nil {
			return nil, err
		}
		return fmt.Appendf(nil, `{"Version":%q,"Time":%q}`, version, time.Unix(seconds, 0).UTC().Format(time.RFC3339)), nil
	case ".mod":
		text, err := output(ctx, r.dir, nil, "git", "show", commit+":"+strings.TrimPrefix(prefix, "./")+"go.mod")
		return []byte(text + "\n"), err
	default:
		var b bytes.Buffer
		err := writeZip(&b, r.dir, dir, version, commit)
		return b.Bytes(), err
	}
}

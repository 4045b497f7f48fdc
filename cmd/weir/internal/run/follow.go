package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile"
	"github.com/floodweir/weir/weirfile/published"
)

// publishedTimeout bounds the wait for the published policies at the start.
const publishedTimeout = time.Second

// A version is one published set of policies.
type version struct {
	number   int64
	policies *policy.Set
	text     string // for programs
	scope    string // where it is in force: inStore or inProcess
}

// Scopes of a version.
const (
	inStore   = "the store"
	inProcess = "this process"
)

// parse reads the policies of a published version.
func parse(v published.Version) (*version, error) {
	f, err := weirfile.Parse(fmt.Sprintf("version %d", v.Number), []byte(v.Text))
	if err != nil {
		return nil, err
	}
	return &version{v.Number, f.Policies, withoutPassword(f, v.Text), inStore}, nil
}

// withoutPassword returns the text of f, whose store becomes "memory" if its URL has a password:
// programs that follow the policies over HTTP have no use for it. It returns "" if the URL is
// not plain text.
func withoutPassword(f *weirfile.File, text string) string {
	if config.Redacted(f.Store) == f.Store {
		return text
	}
	text = strings.ReplaceAll(text, f.Store, "memory")
	if again, err := weirfile.Parse(f.Name, []byte(text)); err != nil || again.Store != "memory" {
		return ""
	}
	return text
}

// use makes v the version in force.
func (r *reloader) use(v *version) {
	r.published.Store(v)
	if v.text == "" {
		r.log.Warn("published policies not served to programs over HTTP: store has a password in an escaped form", "version", v.number)
		return
	}
	r.texts.Set(v.number, v.text)
}

// loadPublished reads the policies that were published before the start. If the store
// does not return them within publishedTimeout, the program starts with those of the file.
func (r *reloader) loadPublished(ctx context.Context) {
	conn := r.stores.conn()
	if !r.config.Published || conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, publishedTimeout)
	defer cancel()
	var v *version
	_, err := published.Newest(ctx, conn, func(p published.Version) (err error) {
		v, err = parse(p)
		return err
	})
	switch {
	case errors.Is(err, published.ErrNone):
		r.log.Info("no policies published yet: using those of the file")
	case err != nil:
		r.log.Error("published policies unavailable: using those of the file", "error", err)
	default:
		r.use(v)
	}
}

// follow puts every published version into force until ctx ends.
func (r *reloader) follow(ctx context.Context) {
	from := int64(0)
	if v := r.published.Load(); v != nil {
		from = v.number
	}
	f := published.Poller{
		Conn:  r.stores.conn,
		Adopt: r.adopt,
		Observe: func(err error) {
			if err == nil {
				r.log.Info("published policies available again")
				return
			}
			r.log.Error("published policies unavailable: the current ones stay in force", "error", err)
		},
	}
	f.Run(ctx, from)
}

// adopt puts a published version into force. It reads no file, so an invalid file does
// not delay published policies.
func (r *reloader) adopt(v published.Version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cause := fmt.Sprintf("version %d published by %q", v.Number, v.By)
	read, err := parse(v)
	if err != nil {
		r.replace(fromStore, cause, nil, err)
		return
	}
	_ = r.put(read, cause) // reported by replace
}

// apply puts a version of this process into force.
func (r *reloader) apply(v *version, cause string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.put(v, cause)
}

// put puts a version into force, or reports why not. It requires mu.
func (r *reloader) put(v *version, cause string) error {
	old := r.current.Load()
	g, err := r.assemble(old.config, old.limits, v)
	if err == nil {
		if v.scope == inProcess {
			r.published.Store(v)
		} else {
			r.use(v)
		}
	}
	r.replace(fromStore, cause, g, err)
	return err
}

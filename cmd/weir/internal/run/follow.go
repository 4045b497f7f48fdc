package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/published"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/weirfile"
)

// publishedTimeout bounds the wait for the published policies at the start.
const publishedTimeout = time.Second

// A version is one published set of policies.
type version struct {
	number   int64
	policies *policy.Set
}

// parse reads the policies of a published version.
func parse(v published.Version) (*version, error) {
	f, err := weirfile.Parse(fmt.Sprintf("version %d", v.Number), []byte(v.Text))
	if err != nil {
		return nil, err
	}
	return &version{v.Number, f.Policies}, nil
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
	v, err := newest(ctx, conn)
	switch {
	case errors.Is(err, published.ErrNone):
		r.log.Info("no policies published yet: using those of the file")
	case err != nil:
		r.log.Error("published policies unavailable: using those of the file", "error", err)
	default:
		r.published.Store(v)
	}
}

// newest returns the last version that this program can read. A newer program may have
// published a version that this one cannot read; the one before it is then in force, as it
// was until the restart.
func newest(ctx context.Context, conn redisstore.Conn) (*version, error) {
	n, err := published.Current(ctx, conn)
	if err != nil {
		return nil, err
	}
	err = published.ErrNone
	for ; n > 0; n-- {
		v, e := published.Get(ctx, conn, n)
		switch {
		case errors.Is(e, published.ErrNone):
			return nil, err
		case e != nil:
			return nil, e
		}
		read, e := parse(v)
		if e == nil {
			return read, nil
		}
		err = e
	}
	return nil, err
}

// follow puts every published version into force until ctx ends.
func (r *reloader) follow(ctx context.Context) {
	from := int64(0)
	if v := r.published.Load(); v != nil {
		from = v.number
	}
	f := published.Follower{
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
	old := r.current.Load()
	g, err := r.assemble(old.config, old.limits, read)
	if err == nil {
		r.published.Store(read)
	}
	r.replace(fromStore, cause, g, err)
}

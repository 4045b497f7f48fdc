package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/admin"
	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/edit"
	"github.com/floodweir/weir/cmd/weir/internal/publish"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/weirfile"
	"github.com/floodweir/weir/weirfile/published"
)

// editRoutes returns the routes of the policy file.
func (p *Program) editRoutes() []admin.Route {
	r := p.reloader
	var source edit.Source = &processVersions{reloader: r}
	if p.config.Published {
		source = storeVersions{r}
	}
	e := edit.New(edit.Config{Source: source, Audit: p.audit, Check: checkDraft})
	return []admin.Route{
		{Pattern: "GET /v1/text", Summary: "the policy file in force", Role: access.Operate, Handler: http.HandlerFunc(e.Text)},
		{Pattern: "POST /v1/draft", Summary: "check a policy file and compare it with the one in force", Role: access.Operate, Handler: http.HandlerFunc(e.Draft)},
		{Pattern: "POST /v1/draft/set", Summary: "change one policy in a policy file", Role: access.Operate, Handler: http.HandlerFunc(e.Set)},
		{Pattern: "POST /v1/apply", Summary: "publish a policy file", Role: access.Operate, Handler: http.HandlerFunc(e.Apply)},
		{Pattern: "GET /v1/versions", Summary: "the published versions", Role: access.Read, Handler: http.HandlerFunc(e.Versions)},
		{Pattern: "GET /v1/versions/{version}", Summary: "one version, with its text", Role: access.Operate, Handler: http.HandlerFunc(e.Version)},
		{Pattern: "POST /v1/rollback", Summary: "publish an earlier version again", Role: access.Operate, Handler: http.HandlerFunc(e.Rollback)},
	}
}

// checkDraft reads a draft as weir check does.
func checkDraft(text string) (*weirfile.File, error) {
	f, err := weirfile.Parse("draft", []byte(text))
	if err != nil {
		return nil, err
	}
	f.GRPC.Config = "" // only policies are published, and a draft opens no file of this machine
	return f, CheckFile(f)
}

// draft returns the policies of a draft as they would be in force after those of now.
func (r *reloader) draft(text string) (*policy.Set, error) {
	f, err := checkDraft(text)
	if err != nil {
		return nil, err
	}
	return r.withAdjustments(f.Policies.WithPrevious(r.current.Load().policies), nil), nil
}

// CheckFile reports the errors that weir serve would find in a valid file.
func CheckFile(f *weirfile.File) error {
	c, err := config.Complete(f, config.Source{File: f.Name, Env: func(string) string { return "" }, AnyRegion: true})
	if err != nil {
		return err
	}
	return Check(c)
}

// fileVersion returns the file as version 0, which is current before one is published.
func (r *reloader) fileVersion() published.Version {
	c := r.current.Load().config
	known := r.inlined.Load()
	if known == nil || known.config != c {
		known = &inlined{c, c.Text}
		if c.File != "" {
			if text, err := edit.Inline(c.File, c.Text); err != nil { // its draft then has the same fault
				r.log.Warn("policy file not complete for the console", "error", err)
			} else {
				known.text = text
			}
		}
		r.inlined.Store(known)
	}
	return published.Version{Text: known.text, By: "file", Note: fileName(c)}
}

// An inlined is the text of a configuration with the overrides of other files.
type inlined struct {
	config *config.Config
	text   string
}

func fileName(c *config.Config) string {
	switch {
	case c.Demo():
		return "the demo"
	case c.File == "":
		return "the environment"
	}
	return filepath.Base(c.File)
}

// storeVersions are the versions in Redis, for all nodes.
type storeVersions struct{ r *reloader }

// storeTimeout bounds the calls of Redis of one request.
const storeTimeout = 3 * time.Second

// with calls f with the connection to Redis.
func (s storeVersions) with(ctx context.Context, f func(context.Context, redisstore.Conn) error) error {
	conn := s.r.stores.conn()
	if conn == nil {
		return errors.New("store unavailable")
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return f(ctx, conn)
}

func (s storeVersions) Current(ctx context.Context) (v published.Version, err error) {
	err = s.with(ctx, func(ctx context.Context, conn redisstore.Conn) error {
		n, err := published.Current(ctx, conn)
		if err == nil && n > 0 {
			v, err = published.Get(ctx, conn, n)
			return err
		}
		v = s.r.fileVersion()
		return err
	})
	return v, err
}

func (s storeVersions) Get(ctx context.Context, number int64) (v published.Version, err error) {
	err = s.with(ctx, func(ctx context.Context, conn redisstore.Conn) error {
		v, err = published.Get(ctx, conn, number)
		return err
	})
	return v, err
}

func (s storeVersions) List(ctx context.Context) (all []published.Version, err error) {
	err = s.with(ctx, func(ctx context.Context, conn redisstore.Conn) error {
		all, err = published.List(ctx, conn)
		return err
	})
	return all, err
}

func (s storeVersions) Publish(ctx context.Context, f *weirfile.File, d published.Draft) (v published.Version, unsupported, err error) {
	o := publish.Options(published.Version{EdgeOnly: d.EdgeOnly, EdgeLocal: d.EdgeLocal}, f)
	d.EdgeOnly = o.Only
	d.Edge, unsupported = publish.Plan(f, o)
	err = s.with(ctx, func(ctx context.Context, conn redisstore.Conn) error {
		v, err = published.Publish(ctx, conn, d)
		return err
	})
	return v, unsupported, err
}

func (s storeVersions) Describe(v published.Version) (source, scope, note string) {
	if v.Number == 0 {
		return v.Note, "store", "not published yet: the first apply publishes it to all nodes of the store"
	}
	return fmt.Sprintf("version %d in the store", v.Number), "store", ""
}

// processVersions are the versions of this process: those of its file, and those applied
// since. They end with the process.
type processVersions struct {
	*reloader
	mu  sync.Mutex
	all []published.Version // oldest first
}

// Limits of the versions of a process.
const maxVersionBytes = 4 * published.MaxSize

// sync adds the text of the file, if it is in force and not the last version. It requires
// mu.
func (s *processVersions) sync() published.Version {
	if s.published.Load() == nil {
		v := s.fileVersion()
		if n := len(s.all); n == 0 || s.all[n-1].By != v.By || s.all[n-1].Text != v.Text {
			s.add(v)
		}
	}
	return s.all[len(s.all)-1]
}

// add adds a version and forgets the oldest ones beyond the limits. It requires mu.
func (s *processVersions) add(v published.Version) published.Version {
	v.Number, v.At = 1, time.Now().UTC()
	if n := len(s.all); n > 0 {
		v.Number = s.all[n-1].Number + 1
	}
	s.all = append(s.all, v)
	size := 0
	for i := len(s.all) - 1; i >= 0; i-- {
		if size += len(s.all[i].Text); size > maxVersionBytes && i < len(s.all)-1 || len(s.all)-i > published.Keep {
			s.all = append([]published.Version(nil), s.all[i+1:]...)
			break
		}
	}
	return v
}

func (s *processVersions) Current(context.Context) (published.Version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sync(), nil
}

func (s *processVersions) Get(_ context.Context, number int64) (published.Version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sync()
	for _, v := range s.all {
		if v.Number == number {
			return v, nil
		}
	}
	return published.Version{}, published.ErrNone
}

func (s *processVersions) List(context.Context) ([]published.Version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sync()
	list := make([]published.Version, 0, len(s.all))
	for i := len(s.all) - 1; i >= 0; i-- {
		list = append(list, s.all[i])
	}
	return list, nil
}

// Publish puts a file into force in this process, until the file of the process changes.
func (s *processVersions) Publish(_ context.Context, f *weirfile.File, d published.Draft) (v published.Version, unsupported, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	current := s.sync()
	if d.After != nil && *d.After != current.Number {
		return v, nil, &published.Conflict{Current: current.Number}
	}
	v = published.Version{Number: current.Number + 1, Text: d.Text, By: d.By, Note: d.Note}
	if err := s.apply(&version{number: v.Number, policies: f.Policies, scope: inProcess}, fmt.Sprintf("version %d applied by %q", v.Number, v.By)); err != nil {
		return v, nil, err
	}
	return s.add(v), nil, nil
}

func (s *processVersions) Describe(v published.Version) (source, scope, note string) {
	c := s.current.Load().config
	note = fmt.Sprintf("this process only, until %s changes or the process ends: to publish to all nodes, start weir serve with --policies store and the --store of a Redis", fileName(c))
	if v.By == "file" {
		return v.Note, "process", note
	}
	return fmt.Sprintf("version %d of this process", v.Number), "process", note
}

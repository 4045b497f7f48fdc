package guard_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/policy"
)

func registry(t testing.TB, c guard.Config) *guard.Registry {
	t.Helper()
	r, err := guard.NewRegistry(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func limits(texts ...string) []weir.Limit {
	var ls []weir.Limit
	for _, text := range texts {
		ls = append(ls, weir.MustLimit(text))
	}
	return ls
}

// rule is a rule as a file would make it.
func rule(t testing.TB, c policy.Config) guard.Rule {
	t.Helper()
	if c.Key == nil {
		c.Key = []policy.KeyPart{guard.KeyPart()}
	}
	p, err := policy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return guard.Rule{Policy: p}
}

func functions(rules ...guard.Rule) *guard.Functions { return &guard.Functions{Rules: rules} }

func configure(t testing.TB, r *guard.Registry, c guard.Config) {
	t.Helper()
	if err := r.Configure(c); err != nil {
		t.Fatal(err)
	}
}

// passed returns the number of n calls that are admitted. Each exits at once.
func passed(t testing.TB, g *guard.Guard, key string, n int) (passed int) {
	t.Helper()
	for range n {
		e, err := g.Enter(context.Background(), key)
		switch {
		case err == nil:
			passed++
		case !errors.Is(err, guard.ErrDenied):
			t.Fatal(err)
		}
		e.Exit(nil)
	}
	return passed
}

// broken is a store that decides nothing while down is not nil.
type broken struct {
	weir.Store
	down error
}

func (b *broken) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	if b.down != nil {
		return weir.Decision{}, b.down
	}
	return b.Store.Do(ctx, r)
}

func (b *broken) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	if b.down != nil {
		return false, b.down
	}
	return b.Store.DoAll(ctx, rs, ds)
}

// lossy is a store that reserves and says that it could not be asked.
type lossy struct {
	weir.Store
	loses bool
}

func (l *lossy) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	d, err := l.Store.Do(ctx, r)
	if l.loses && r.Verb == weir.Reserve {
		return weir.Decision{}, errDown
	}
	return d, err
}

// partly is a store that decides nothing about keys that begin with down.
type partly struct {
	weir.Store
	down string
}

func (p *partly) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	if strings.HasPrefix(r.Key, p.down) {
		return weir.Decision{}, errDown
	}
	return p.Store.Do(ctx, r)
}

// stuck is a store that does not respond.
type stuck struct{}

func (stuck) Do(ctx context.Context, _ weir.Request) (weir.Decision, error) {
	<-ctx.Done()
	return weir.Decision{}, context.Cause(ctx)
}

func (s stuck) DoAll(ctx context.Context, _ []weir.Request, _ []weir.Decision) (bool, error) {
	_, err := s.Do(ctx, weir.Request{})
	return false, err
}

// free reports whether a call under a limit of one at a time goes through.
func free(t testing.TB, g *guard.Guard) bool {
	t.Helper()
	e, err := g.Enter(context.Background(), "")
	e.Exit(nil)
	return err == nil
}

var errDown = errors.New("store down")

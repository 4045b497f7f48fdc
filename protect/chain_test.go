package protect_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/protect"
)

var errFull = errors.New("full")

// A recorder is a Protection that records its calls.
type recorder struct {
	name   string
	refuse error
	whole  bool
	log    *[]string
}

func (r *recorder) Name() string       { return r.name }
func (r *recorder) State() string      { return "ready" }
func (r *recorder) WholeRequest() bool { return r.whole }

func (r *recorder) Enter(_ context.Context, class string) (func(error), error) {
	if r.refuse != nil {
		return nil, r.refuse
	}
	*r.log = append(*r.log, "+"+r.name+class)
	return func(err error) {
		text := "-" + r.name
		switch {
		case errors.Is(err, protect.ErrCanceled):
			text += " canceled"
		case err != nil:
			text += " failed"
		}
		*r.log = append(*r.log, text)
	}, nil
}

func TestChain(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name    string
		refuse  error // of the last protection
		shadow  bool
		use     func(p *protect.Pass)
		want    []string
		err     string
		refused []string
	}{
		{name: "response", use: func(p *protect.Pass) { p.Respond(nil); p.Respond(errFull); p.End(errFull) },
			want: []string{"+a1", "+b1", "+c1", "-c", "-a", "-b failed"}},
		{name: "no response", use: func(p *protect.Pass) { p.End(errFull); p.End(nil) },
			want: []string{"+a1", "+b1", "+c1", "-c failed", "-b failed", "-a failed"}},
		{name: "denied by a limit", use: func(p *protect.Pass) { p.Cancel(); p.End(nil) },
			want: []string{"+a1", "+b1", "+c1", "-c canceled", "-b canceled", "-a canceled"}},
		{name: "refused", refuse: errFull, err: "protect: c: full",
			want: []string{"+a1", "+b1", "-b canceled", "-a canceled"}, refused: []string{"c"}},
		{name: "refused in shadow mode", refuse: errFull, shadow: true, use: func(p *protect.Pass) { p.End(nil) },
			want: []string{"+a1", "+b1", "-b", "-a"}, refused: []string{"c in shadow"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log, refused []string
			var last protect.Protection = &recorder{name: "c", log: &log, refuse: c.refuse}
			if c.shadow {
				last = protect.Shadow(last)
			}
			chain := protect.New(protect.Config{
				Protections: []protect.Protection{&recorder{name: "a", log: &log}, &recorder{name: "b", log: &log, whole: true}, last},
				Observe: func(name string, shadow bool) {
					if shadow {
						name += " in shadow"
					}
					refused = append(refused, name)
				},
			})
			ctx, pass, err := chain.Enter(ctx, "1")
			if c.err != "" {
				var rejected *protect.Rejected
				if err == nil || err.Error() != c.err || !errors.As(err, &rejected) || rejected.RetryAfter() != time.Second || !errors.Is(err, errFull) {
					t.Errorf("Enter: %v, want %s", err, c.err)
				}
			} else {
				if err != nil || protect.FromContext(ctx) != pass {
					t.Fatalf("Enter: %v, want a pass in the context", err)
				}
				c.use(pass)
			}
			if !slices.Equal(log, c.want) || !slices.Equal(refused, c.refused) {
				t.Errorf("calls %q, refused %q, want %q and %q", log, refused, c.want, c.refused)
			}
		})
	}
}

func TestRejectedRetryAfter(t *testing.T) {
	for delay, want := range map[time.Duration]time.Duration{0: time.Second, 10 * time.Second: 10 * time.Second} {
		err := &protect.Rejected{Name: "breaker", Err: &protect.Refused{Reason: errFull, RetryAfter: delay}}
		if got := err.RetryAfter(); got != want {
			t.Errorf("RetryAfter with %v = %v, want %v", delay, got, want)
		}
	}
}

func TestTookExcludesWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, pass, _ := protect.New(protect.Config{}).Enter(context.Background(), "")
		start := time.Now()
		time.Sleep(2 * time.Second)
		waiting := pass.Now()
		time.Sleep(3 * time.Second)
		pass.Waited(waiting)
		if got := protect.Took(ctx, start); got != 2*time.Second {
			t.Errorf("Took = %v, want 2s", got)
		}
		if got := protect.Took(context.Background(), start); got != 5*time.Second {
			t.Errorf("Took without a pass = %v, want 5s", got)
		}
	})
	var none *protect.Pass
	none.Waited(none.Now())
	none.Respond(nil)
	none.Cancel()
}

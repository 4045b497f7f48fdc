package published_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/weirfile/published"
)

// A redis is a Conn that runs the scripts of this package in Go.
type redis struct {
	mu   sync.Mutex
	hash map[string]string
	err  error
}

func (r *redis) Cluster() bool { return false }

func (r *redis) Do(ctx context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, c := range cmds {
		switch {
		case r.err != nil:
			replies[i] = redisstore.Reply{Err: r.err}
		case c.Head[0] != "EVAL" || c.Head[2] != "1" || len(c.Keys) != 1 || c.Keys[0] != "weir:1:policies":
			replies[i] = redisstore.Reply{Err: redisstore.ServerError("ERR what is this")}
		case len(c.Args) == 1 || c.Args[0] == "version":
			text := r.hash[c.Args[0]]
			for _, field := range c.Args[1:] {
				if text != "" {
					text += " " + r.hash[field]
				}
			}
			replies[i] = redisstore.Reply{Items: []string{text}}
		default:
			replies[i] = redisstore.Reply{Items: []string{r.publish(c.Args)}}
		}
	}
}

func (r *redis) publish(args []string) string {
	current, _ := strconv.Atoi(r.hash["version"])
	if args[2] != "" && args[2] != strconv.Itoa(current) {
		return strconv.Itoa(-current - 1)
	}
	keep, _ := strconv.Atoi(args[1])
	number := strconv.Itoa(current + 1)
	r.hash["v:"+number], r.hash["version"], r.hash["id"] = args[0], number, args[3]
	delete(r.hash, "edge")
	if args[4] != "" {
		r.hash["edge"] = `{"version":` + number + "," + args[4][1:]
	}
	delete(r.hash, "v:"+strconv.Itoa(current+1-keep))
	return number
}

// forget removes everything, as a flush or a restart without persistence does.
func (r *redis) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.hash)
}

func mustPublish(t *testing.T, r *redis, text string) published.Version {
	t.Helper()
	v, err := published.Publish(t.Context(), r, published.Draft{Text: text, By: "me", Note: "why"})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVersions(t *testing.T) {
	r := &redis{hash: map[string]string{}}
	if n, err := published.Current(t.Context(), r); n != 0 || err != nil {
		t.Errorf("Current of nothing = %d, %v, want 0", n, err)
	}
	if _, err := published.Get(t.Context(), r, 1); !errors.Is(err, published.ErrNone) {
		t.Errorf("Get of nothing = %v, want ErrNone", err)
	}
	for i := range published.Keep + 3 {
		if v := mustPublish(t, r, "text "+strconv.Itoa(i)); v.Number != int64(i+1) {
			t.Errorf("version %d was published, want %d", v.Number, i+1)
		}
	}
	vs, err := published.List(t.Context(), r)
	if err != nil || len(vs) != published.Keep || vs[0].Number != published.Keep+3 || vs[0].By != "me" || vs[0].Note != "why" || vs[0].Text != "text 22" {
		t.Errorf("List = %d versions, the first %+v, %v; want the last %d", len(vs), vs[0], err, published.Keep)
	}
}

func TestAfter(t *testing.T) {
	r := &redis{hash: map[string]string{}}
	zero, one := int64(0), int64(1)
	var c *published.Conflict
	if _, err := published.Publish(t.Context(), r, published.Draft{Text: "a", After: &one}); !errors.As(err, &c) || c.Current != 0 {
		t.Errorf("Publish after 1 = %v, want a conflict with 0", err)
	}
	if _, err := published.Publish(t.Context(), r, published.Draft{Text: "a", After: &zero}); err != nil {
		t.Errorf("Publish after nothing = %v", err)
	}
	if _, err := published.Publish(t.Context(), r, published.Draft{Text: "b", After: &zero}); !errors.As(err, &c) || c.Current != 1 {
		t.Errorf("Publish after nothing = %v, want a conflict with 1", err)
	}
}

func TestBadInput(t *testing.T) {
	r := &redis{hash: map[string]string{}}
	for _, d := range []published.Draft{{}, {Text: strings.Repeat("x", published.MaxSize+1)}, {Text: "a", Note: strings.Repeat("x", 2000)},
		{Text: "a", Edge: "x"}, {Text: "a", Edge: "{}"}, {Text: "a", Edge: `{"a":1`}, {Text: "a", Edge: `["a"]`}, {Text: "a", Edge: `{"a":"` + strings.Repeat("x", published.MaxSize+1024) + `"}`}} {
		if _, err := published.Publish(t.Context(), r, d); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("Publish of %d bytes = %v, want ErrInvalid", len(d.Text), err)
		}
	}
	for field, value := range map[string]string{"version": "many", "v:1": "no json"} {
		r.hash = map[string]string{"version": "1", "v:1": "{}", field: value}
		if _, err := published.List(t.Context(), r); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("List with %s %q = %v, want an error that names the field", field, value, err)
		}
	}
	r.err = redisstore.ServerError("NOPERM this user has no permissions")
	if _, err := published.Current(t.Context(), r); err == nil || !strings.Contains(err.Error(), "the Redis user has no permission for weir:1:policies") {
		t.Errorf("Current without permission = %v", err)
	}
}

// TestPoller checks that every version that stays current is reported once, that each
// error is reported, and its end once.
func TestPoller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &redis{hash: map[string]string{}}
		mustPublish(t, r, "one")
		var mu sync.Mutex // of all that the follower sees and says
		var connected atomic.Bool
		var adopted []int64
		var trouble, well int
		f := published.Poller{
			Conn: func() redisstore.Conn {
				mu.Lock()
				defer mu.Unlock()
				if !connected.Load() {
					return nil
				}
				return r
			},
			Adopt: func(v published.Version) {
				mu.Lock()
				defer mu.Unlock()
				adopted = append(adopted, v.Number)
			},
			Observe: func(err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					trouble++
				} else {
					well++
				}
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { f.Run(ctx, 0) })
		pass := func() {
			time.Sleep(2 * published.DefaultEvery)
			synctest.Wait()
		}
		is := func(step string, n, bad, good int) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if len(adopted) != n || (trouble > 0) != (bad > 0) || well != good {
				t.Errorf("%s: adopted %v, trouble %d, well %d; want %d adopted, %d, %d", step, adopted, trouble, well, n, bad, good)
			}
			trouble, well = 0, 0
		}
		pass()
		is("not connected", 0, 1, 0)
		mu.Lock()
		connected.Store(true)
		mu.Unlock()
		pass()
		is("connected", 1, 0, 1)
		mustPublish(t, r, "two")
		mustPublish(t, r, "three")
		pass()
		is("two more", 2, 0, 0)
		r.mu.Lock()
		r.err = errors.New("gone")
		r.mu.Unlock()
		pass()
		is("gone", 2, 1, 0)
		r.mu.Lock()
		r.err = nil
		r.mu.Unlock()
		pass()
		is("there again", 2, 0, 1)
		if adopted[1] != 3 {
			t.Errorf("adopted %v, want the last of what came at once", adopted)
		}
		r.forget()
		pass()
		is("nothing any more", 2, 0, 0)
		mustPublish(t, r, "four")
		pass()
		is("number 1 again", 3, 0, 0)
		r.forget()
		mustPublish(t, r, "five")
		pass()
		is("another of the same number, at once", 4, 0, 0)
		pass()
		is("nothing new", 4, 0, 0)
		cancel()
		ended.Wait()
	})
}

// TestKnown checks that a version that was read by its number is not reported again, and
// that a lasting error is repeated.
func TestKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &redis{hash: map[string]string{}}
		v := mustPublish(t, r, "one")
		adopted, trouble := 0, 0
		f := published.Poller{
			Conn:    func() redisstore.Conn { return r },
			Adopt:   func(published.Version) { adopted++ },
			Observe: func(error) { trouble++ },
		}
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { f.Run(ctx, v.Number) })
		time.Sleep(2 * published.DefaultEvery)
		r.mu.Lock()
		r.err = errors.New("gone")
		r.mu.Unlock()
		time.Sleep(5 * time.Minute)
		cancel()
		ended.Wait()
		if adopted != 0 || trouble < 9 || trouble > 11 {
			t.Errorf("adopted %d, trouble %d times in five minutes, want 0 and 10", adopted, trouble)
		}
	})
}

// TestNewest checks that a version that is refused is replaced by the one before it.
func TestNewest(t *testing.T) {
	r := &redis{hash: map[string]string{}}
	refused := errors.New("refused")
	for _, c := range []struct {
		published, good string
		number          int64
		err             error
	}{
		{"", "a", 0, published.ErrNone},
		{"a", "a", 1, nil},
		{"b", "a", 1, nil},
		{"c", "c", 3, nil},
		{"d", "e", 0, refused},
	} {
		if c.published != "" {
			mustPublish(t, r, c.published)
		}
		v, err := published.Newest(t.Context(), r, func(v published.Version) error {
			if v.Text != c.good {
				return refused
			}
			return nil
		})
		if v.Number != c.number || !errors.Is(err, c.err) {
			t.Errorf("Newest after %q = %d, %v, want %d, %v", c.published, v.Number, err, c.number, c.err)
		}
	}
	r.err = errors.New("gone")
	if _, err := published.Newest(t.Context(), r, nil); !errors.Is(err, r.err) {
		t.Errorf("Newest = %v, want %v", err, r.err)
	}
}

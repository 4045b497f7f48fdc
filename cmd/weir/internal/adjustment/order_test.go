package adjustment_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/adjustment"
	"github.com/floodweir/weir/cmd/weir/internal/audit"
	"github.com/floodweir/weir/redisstore"
)

// A slowRedis has at most one adjustment. The reply to a command that is held waits after the command
// was executed.
type slowRedis struct {
	mu      sync.Mutex
	version int
	json    string                   // "" for none
	held    map[string]chan struct{} // by command: change, read
}

func (r *slowRedis) Cluster() bool { return false }

func (r *slowRedis) Do(ctx context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
	name, items := r.execute(&cmds[0])
	r.mu.Lock()
	release := r.held[name]
	r.mu.Unlock()
	if release != nil {
		select {
		case <-release:
		case <-ctx.Done():
			replies[0] = redisstore.Reply{Err: ctx.Err()}
			return
		}
	}
	replies[0] = redisstore.Reply{Items: items}
}

func (r *slowRedis) execute(c *redisstore.Command) (name string, items []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	version, ms := strconv.Itoa(r.version), strconv.FormatInt(time.Now().UnixMilli(), 10)
	switch script := c.Head[1]; {
	case strings.Contains(script, "ZRANGE'"):
		items = []string{version, "id" + version, ms}
		if r.json != "" {
			items = append(items, r.json)
		}
		return "read", items
	case strings.Contains(script, "'lift'"):
		before, after := r.json, ""
		if c.Args[0] == "set" {
			after = fmt.Sprintf(`{"until":0,"at":%s,%s`, ms, c.Args[2][1:])
		}
		r.json = after
		r.version++
		return "change", []string{"ok", before, after, ms, "1", ms}
	case r.version == 0:
		return "position", []string{""}
	}
	return "position", []string{version + " id" + version}
}

// hold holds the replies to a command until release is called.
func (r *slowRedis) hold(command string) (release func()) {
	ch := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = map[string]chan struct{}{command: ch}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.held = nil
		close(ch)
	}
}

// TestSlowReplies checks two orders at one node. A read that began before a change does not undo it.
// The late reply to a change does not undo what was read after it.
func TestSlowReplies(t *testing.T) {
	for _, slow := range []string{"read", "change"} {
		t.Run(slow, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				redis, log := &slowRedis{}, slog.New(slog.DiscardHandler)
				a, err := audit.New(audit.Config{Log: log})
				if err != nil {
					t.Fatal(err)
				}
				s := adjustment.New(adjustment.Config{Conn: func() redisstore.Conn { return redis }, Audit: a, Changed: func() {}, Log: log})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go s.Run(ctx)
				synctest.Wait()

				done := make(chan error, 1)
				change := func(do func(context.Context, adjustment.Adjustment, audit.Entry) (*adjustment.Adjustment, audit.Entry, error)) {
					go func() {
						_, _, err := do(ctx, of(adjustment.Freeze, "k"), audit.Entry{})
						done <- err
					}()
					synctest.Wait()
				}
				if slow == "read" {
					change(s.Set)
					if err := <-done; err != nil {
						t.Fatal(err)
					}
					release := redis.hold("read")
					time.Sleep(500 * time.Millisecond) // the read of the freeze waits
					change(s.Lift)
					release()
				} else {
					release := redis.hold("change")
					change(s.Set)
					redis.mu.Lock() // another node lifts the freeze
					redis.version, redis.json = redis.version+1, ""
					redis.mu.Unlock()
					time.Sleep(500 * time.Millisecond)
					release()
				}
				synctest.Wait()
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				if slow == "change" {
					time.Sleep(time.Second) // the next read
				}
				synctest.Wait()
				if all := s.Current(); len(all) > 0 {
					t.Errorf("after the last change, a lift: %v, want none", all)
				}
			})
		})
	}
}

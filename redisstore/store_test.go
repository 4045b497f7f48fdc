package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/redisstore"
)

const tag = "10/s+burst+20"

func TestTakeIsOneCall(t *testing.T) {
	conn := &fakeConn{}
	s := newStore(t, conn, redisstore.Config{})
	d, err := s.Do(t.Context(), take("user:42", 3))
	if err != nil || !d.OK || d.Granted != 3 || d.Remaining != 17 || !d.Limit.Equal(tenPerSecond) || d.ResetAfter != 300*time.Millisecond {
		t.Errorf("Take(3) = %+v, %v", d, err)
	}
	want := [][]string{{"EVALSHA; take 3 {user:42}:" + tag}}
	if got := conn.asked(); !reflect.DeepEqual(got, want) {
		t.Errorf("asked %q, want %q", got, want)
	}
}

// TestCallersShareRoundTrips checks that the next round trip has all queued requests.
func TestCallersShareRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan bool)
		conn := &fakeConn{}
		conn.do = func(_ context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
			<-free
			for i, cmd := range cmds {
				replies[i] = grant(cmd)
			}
		}
		s := newStore(t, conn, redisstore.Config{InFlight: 1, MaxBatch: 4})
		ask := func(r weir.Request) {
			if d, err := s.Do(context.Background(), r); err != nil || d.Granted != r.N {
				t.Errorf("Do(%s %d) = %+v, %v", r.Key, r.N, d, err)
			}
		}
		go ask(take("a", 1))
		synctest.Wait()
		for i := range 6 {
			go ask(take(string('b'+rune(i%2)), int64(i+2)))
			synctest.Wait()
		}
		close(free)
		s.Close()
		want := [][]string{
			{"EVALSHA; take 1 {a}:" + tag},
			{"EVALSHA; take 2 {b}:" + tag + "; take 3 {c}:" + tag + "; take 4 {b}:" + tag + "; take 5 {c}:" + tag},
			{"EVALSHA; take 6 {b}:" + tag + "; take 7 {c}:" + tag},
		}
		if got := conn.asked(); !reflect.DeepEqual(got, want) {
			t.Errorf("asked %q, want %q", got, want)
		}
		if keys := conn.trips[1][0].keys; len(keys) != 2 {
			t.Errorf("keys %q, want each once", keys)
		}
	})
}

// TestCallersShareRoundTripsOfACluster checks that queued requests are sent together, with one
// call per slot.
func TestCallersShareRoundTripsOfACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan bool)
		conn := &fakeConn{cluster: true}
		conn.do = func(_ context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
			<-free
			for i, cmd := range cmds {
				replies[i] = grant(cmd)
			}
		}
		s := newStore(t, conn, redisstore.Config{InFlight: 1})
		for i, key := range []string{"first", "a", "b", "a"} {
			go func() {
				if d, err := s.Do(context.Background(), take(key, int64(i))); err != nil || d.Granted != int64(i) {
					t.Errorf("Take of %s = %+v, %v", key, d, err)
				}
			}()
			synctest.Wait()
		}
		close(free)
		s.Close()
		want := []string{"EVALSHA; take 1 {a}:" + tag + "; take 3 {a}:" + tag, "EVALSHA; take 2 {b}:" + tag}
		if got := conn.asked(); len(got) != 2 || !reflect.DeepEqual(got[1], want) {
			t.Errorf("asked %q, want %q second", got, want)
		}
	})
}

// TestSentAgainOnlyIfNotRun checks that a call is repeated only if Redis reports that it did
// not run it.
func TestSentAgainOnlyIfNotRun(t *testing.T) {
	noScript := redisstore.ServerError("NOSCRIPT No matching script. Please use EVAL.")
	tryAgain := redisstore.ServerError("TRYAGAIN Multiple keys request during rehashing of slot")
	for _, c := range []struct {
		name    string
		replies []redisstore.Reply
		sent    []string
		ok      bool
	}{
		{"known", nil, []string{"EVALSHA"}, true},
		{"forgotten", []redisstore.Reply{fails(noScript)}, []string{"EVALSHA", "EVAL"}, true},
		{"forgotten for ever", []redisstore.Reply{fails(noScript), fails(noScript)}, []string{"EVALSHA", "EVAL"}, false},
		{"moving", []redisstore.Reply{fails(tryAgain), fails(tryAgain)}, []string{"EVALSHA", "EVALSHA", "EVALSHA"}, true},
		{"moving and forgotten", []redisstore.Reply{fails(tryAgain), fails(noScript), fails(tryAgain)}, []string{"EVALSHA", "EVALSHA", "EVAL", "EVAL"}, true},
		{"lost", []redisstore.Reply{fails(errLost)}, []string{"EVALSHA"}, false},
		{"late", []redisstore.Reply{fails(context.DeadlineExceeded)}, []string{"EVALSHA"}, false},
		{"says NOSCRIPT but is not from Redis", []redisstore.Reply{fails(errors.New("NOSCRIPT"))}, []string{"EVALSHA"}, false},
		{"full", []redisstore.Reply{fails(redisstore.ServerError("OOM command not allowed"))}, []string{"EVALSHA"}, false},
		{"loading", []redisstore.Reply{fails(redisstore.ServerError("LOADING Redis is loading"))}, []string{"EVALSHA"}, false},
		{"no answers", []redisstore.Reply{{}}, []string{"EVALSHA"}, false},
		{"two answers", []redisstore.Reply{{Items: []string{pack(1, 1, 1, 0, 0, 0, 1), pack(1, 1, 1, 0, 0, 0, 1)}}}, []string{"EVALSHA"}, false},
		{"short answer", []redisstore.Reply{{Items: []string{"OK"}}}, []string{"EVALSHA"}, false},
		{"error in the answer", []redisstore.Reply{{Items: []string{"!WRONGTYPE"}}}, []string{"EVALSHA"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := &fakeConn{}
				conn.do = func(_ context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
					if n := len(conn.trips); n <= len(c.replies) {
						replies[0] = c.replies[n-1]
						return
					}
					replies[0] = grant(cmds[0])
				}
				d, err := newStore(t, conn, redisstore.Config{}).Do(t.Context(), take("k", 1))
				if (err == nil) != c.ok || err != nil && !errors.Is(err, weir.ErrUnavailable) || d.OK != c.ok {
					t.Errorf("Take = %+v, %v, want OK %v or ErrUnavailable", d, err, c.ok)
				}
				var sent []string
				for _, trip := range conn.trips {
					sent = append(sent, trip[0].name)
				}
				if !reflect.DeepEqual(sent, c.sent) {
					t.Errorf("sent %v, want %v", sent, c.sent)
				}
			})
		})
	}
}

// TestRedirection checks the error of a cluster behind a client for one server, and of a client
// for clusters that was redirected too often: it says what to do.
func TestRedirection(t *testing.T) {
	for _, text := range []string{"MOVED 866 127.0.0.1:7001", "ASK 866 127.0.0.1:7001"} {
		for _, cluster := range []bool{false, true} {
			conn := &fakeConn{cluster: cluster, do: func(_ context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
				replies[0] = fails(redisstore.ServerError(text))
			}}
			_, err := newStore(t, conn, redisstore.Config{}).Do(t.Context(), take("a", 1))
			want := "the client is for one server: use redis+cluster://"
			if cluster {
				want = "redirected too often, nothing was decided"
			}
			if !errors.Is(err, weir.ErrUnavailable) || errors.Is(err, redisstore.ErrCluster) == cluster || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, cluster %t: %v, want %q", text, cluster, err, want)
			}
		}
	}
}

// TestScriptHasNothingOfARequest checks that EVAL sends the script and EVALSHA its SHA-1,
// the same for every request.
func TestScriptHasNothingOfARequest(t *testing.T) {
	conn := &fakeConn{}
	var heads []string
	conn.do = func(_ context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
		heads = append(heads, cmds[0].Head...)
		replies[0] = fails(redisstore.ServerError("NOSCRIPT"))
	}
	s := newStore(t, conn, redisstore.Config{})
	r := take("]] redis.call('FLUSHALL') --[[", 1)
	r.Verb, r.ID, r.TTL = weir.Reserve, "'..os.exit()..'", time.Second
	if _, err := s.Do(t.Context(), r); err == nil {
		t.Error("Do = no error, want one")
	}
	if len(heads) != 6 || heads[4] != redisstore.Script() || len(heads[1]) != 40 {
		t.Errorf("heads %.60q, want EVALSHA, a SHA-1, the keys, EVAL, the script, the keys", heads)
	}
}

// TestTimeout checks that a caller waits for at most two Timeouts: one in the queue and one
// in flight. A request that times out in the queue is not sent.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{}
		conn.do = func(ctx context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
			<-ctx.Done()
			for i := range cmds {
				replies[i] = fails(ctx.Err())
			}
		}
		s := newStore(t, conn, redisstore.Config{Timeout: time.Second, InFlight: 1, MaxBatch: 2})
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				_, err := s.Do(context.Background(), take(fmt.Sprint(i), 1))
				if !errors.Is(err, weir.ErrUnavailable) {
					t.Errorf("Do = error %v, want ErrUnavailable", err)
				}
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("caller %d waited %v, want at most 2s", i, took)
				}
			})
		}
		wg.Wait()
		if n := len(conn.trips); n != 2 {
			t.Errorf("%d round trips, want 2", n)
		}
		s.Close()
	})
}

// TestCanceledCaller checks that Do returns when its context ends, and that its
// queued request is not sent. A request that was sent is not interrupted: its reply shows
// that Redis is alive.
func TestCanceledCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan bool)
		conn := &fakeConn{}
		conn.do = func(ctx context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
			<-free
			if replies[0] = grant(cmds[0]); ctx.Err() != nil {
				t.Error("the round trip was interrupted")
			}
		}
		s := newStore(t, conn, redisstore.Config{InFlight: 1, Timeout: time.Hour})
		sent, leave := context.WithCancel(t.Context())
		go func() {
			if _, err := s.Do(sent, take("a", 1)); !errors.Is(err, context.Canceled) {
				t.Errorf("Do = error %v, want the context's", err)
			}
		}()
		synctest.Wait()
		leave()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := s.Do(ctx, take("b", 2))
		if !errors.Is(err, weir.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("Do = error %v after %v, want the context's after 1s", err, time.Since(began))
		}
		close(free)
		s.Close()
		if got := conn.asked(); len(got) != 1 {
			t.Errorf("asked %q, want only the request that was sent", got)
		}
		if _, err := s.Do(ctx, take("b", 2)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do with an ended context = error %v", err)
		}
	})
}

// TestCallerSendsOnce checks that a caller without an end of its context returns after its own round
// trip, while the next one is in flight. A panic in Config.Slot affects no other request.
func TestCallerSendsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan bool)
		conn := &fakeConn{}
		conn.do = func(_ context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
			<-free
			replies[0] = grant(cmds[0])
		}
		s := newStore(t, conn, redisstore.Config{InFlight: 1, Slot: func(key string) string {
			if key == "bad" {
				panic(key)
			}
			return ""
		}})
		var ended [2]atomic.Bool
		for i := range ended {
			go func() {
				if _, err := s.Do(context.Background(), take("k", 1)); err != nil {
					t.Error(err)
				}
				ended[i].Store(true)
			}()
			synctest.Wait()
		}
		free <- true
		synctest.Wait()
		if !ended[0].Load() || ended[1].Load() {
			t.Errorf("callers returned: %t, %t, want the first only", ended[0].Load(), ended[1].Load())
		}
		free <- true
		synctest.Wait()
		func() {
			defer func() { recover() }()
			_, _ = s.Do(context.Background(), take("bad", 1))
		}()
		go func() { free <- true }()
		if _, err := s.Do(context.Background(), take("k", 1)); err != nil {
			t.Errorf("after a panic: %v", err)
		}
		s.Close()
	})
}

// TestClose checks that Close waits for requests in flight and in the queue.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{}
		conn.do = func(_ context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
			<-time.After(100 * time.Millisecond) // of the bubble's clock
			replies[0] = grant(cmds[0])
		}
		s := newStore(t, conn, redisstore.Config{InFlight: 1})
		for i := range 3 {
			go func() {
				if d, err := s.Do(context.Background(), take("k", 1)); err != nil || !d.OK {
					t.Errorf("caller %d: %+v, %v, want OK", i, d, err)
				}
			}()
		}
		synctest.Wait()
		began := time.Now()
		s.Close()
		s.Close()
		if took := time.Since(began); took != 200*time.Millisecond {
			t.Errorf("Close took %v, want the 200ms that two round trips take", took)
		}
		if _, err := s.Do(t.Context(), take("k", 1)); !errors.Is(err, weir.ErrClosed) {
			t.Errorf("Do after Close = error %v, want ErrClosed", err)
		}
		if _, err := s.DoAll(t.Context(), []weir.Request{take("k", 1)}, make([]weir.Decision, 1)); !errors.Is(err, weir.ErrClosed) {
			t.Errorf("DoAll after Close = error %v, want ErrClosed", err)
		}
	})
}

// TestReservationKeys checks that the keys of reservations are declared after the script has
// required them.
func TestReservationKeys(t *testing.T) {
	conn := &fakeConn{}
	conn.do = func(_ context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
		switch c := parseCall(cmds[0]); {
		case c.takes:
			replies[0] = redisstore.Reply{Items: []string{pack(fakeNow, 0) + "\x01\x00\x00\x00"}}
			return
		case len(c.keys) == 1:
			replies[0] = redisstore.Reply{Items: []string{pack(3, 0, 0, 0, 0, 0, 1)}}
			return
		}
		replies[0] = grant(cmds[0])
	}
	s := newStore(t, conn, redisstore.Config{})
	for i, trips := range []int{3, 4, 5} {
		if d, err := s.Do(t.Context(), take("k", 1)); err != nil || !d.OK || len(conn.trips) != trips {
			t.Errorf("Take %d = %+v, %v after %d trips, want OK after %d", i, d, err, len(conn.trips), trips)
		}
	}
	want := []string{"weir:1:{k}:" + tag, "weir:1:{k}:" + tag + ":holds", "weir:1:{k}:" + tag + ":deadlines"}
	if c := conn.trips[4][0]; !reflect.DeepEqual(c.keys, want) || c.more[0] != "[2,0,0,0,0]" {
		t.Errorf("keys %q, more %q", c.keys, c.more)
	}
}

// TestReservationKeysOfABatch checks that a batch declares the keys of reservations of the
// states that may need them, and of all states after the script has required them.
func TestReservationKeysOfABatch(t *testing.T) {
	conn := &fakeConn{}
	conn.do = func(_ context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
		replies[0] = grant(cmds[0])
		if len(cmds[0].Keys) == 4 {
			replies[0].Items[1] = pack(3, 0, 0, 0, 0, 0, 1)
		}
	}
	s := newStore(t, conn, redisstore.Config{})
	batch := []weir.Request{{Verb: weir.Reserve, Key: "held", Limit: tenPerSecond, N: 1, ID: "r", TTL: time.Second}, {Verb: weir.Take, Key: "k", Limit: weir.MustLimit("9/s"), N: 1}}
	for i, want := range [][]int{{4, 6}, {6}} {
		conn.trips = nil
		ds := make([]weir.Decision, 2)
		if ok, err := s.DoAll(t.Context(), batch, ds); err != nil || !ok || ds[1].Granted != 1 {
			t.Fatalf("batch %d = %v, %v, %+v, want OK", i, ok, err, ds)
		}
		var keys []int
		for _, trip := range conn.trips {
			keys = append(keys, len(trip[0].keys))
		}
		if !reflect.DeepEqual(keys, want) {
			t.Errorf("batch %d declares %d keys, trip by trip, want %d", i, keys, want)
		}
	}
}

func TestNumbersBeyondDoubles(t *testing.T) {
	conn := &fakeConn{}
	s := newStore(t, conn, redisstore.Config{})
	r := take("k", math.MaxInt64)
	r.Verb = weir.Charge
	if d, err := s.Do(t.Context(), r); err != nil || d.Granted != math.MaxInt64 {
		t.Errorf("Charge(MaxInt64) = %+v, %v", d, err)
	}
	r.Verb, r.ID = weir.Commit, "id"
	if _, err := s.Do(t.Context(), r); err != nil {
		t.Errorf("Commit(MaxInt64) = error %v", err)
	}
	r = weir.Request{Verb: weir.Return, Key: "k", Limit: tenPerSecond, N: 1, At: time.Unix(-5, 0)}
	if _, err := s.Do(t.Context(), r); err != nil {
		t.Errorf("Return of a time before 1970 = error %v", err)
	}
	for i, more := range []string{"", "[2,9007199254740991,1023,0,4]", "[0,1,0,0,0]"} {
		if c := conn.trips[i][0]; c.ns[0] > 1<<53-1 || c.more[0] != more {
			t.Errorf("call %d: n %d, more %q, want at most 2^53-1 and %q", i, c.ns[0], c.more[0], more)
		}
	}
}

func TestAllocations(t *testing.T) {
	conn := &quietConn{reply: redisstore.Reply{Items: []string{pack(fakeNow, 1) + "\x00\x00"}}}
	s := newStore(t, conn, redisstore.Config{})
	r := take("user:42", 1)
	if n := testing.AllocsPerRun(200, func() { s.Do(context.Background(), r) }); n > 26 {
		t.Errorf("%v allocations for a Take, want at most 26", n)
	}
}

// A quietConn records nothing.
type quietConn struct{ reply redisstore.Reply }

func (c *quietConn) Cluster() bool { return false }

func (c *quietConn) Do(_ context.Context, _ []redisstore.Command, replies []redisstore.Reply) {
	replies[0] = c.reply
}

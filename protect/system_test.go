package protect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/protect"
)

// A machine has 8 processors. Each request needs one of them for 20 ms, also if its client has
// disconnected.
type machine struct {
	cores chan struct{}

	mu    sync.Mutex
	busy  int
	used  time.Duration
	since time.Time

	memory     int64 // percent
	load       float64
	unreadable error
}

func newMachine() *machine {
	return &machine{cores: make(chan struct{}, 8), since: time.Now()}
}

// run changes the number of busy processors, and returns the time used until now.
func (m *machine) run(change int) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used += time.Duration(m.busy) * time.Since(m.since)
	m.since, m.busy = time.Now(), m.busy+change
	return m.used
}

func (m *machine) work() {
	m.cores <- struct{}{}
	m.run(1)
	<-time.After(20 * time.Millisecond)
	m.run(-1)
	<-m.cores
}

func (m *machine) CPU() (time.Duration, float64, error) {
	return m.run(0), 8, m.unreadable
}

func (m *machine) Memory() (int64, int64, error) { return m.memory, 100, m.unreadable }
func (m *machine) Load() (float64, error)        { return m.load, m.unreadable }

// A tally counts the requests of a class.
type tally struct{ offered, good, rejected int }

// overload offers three times the 400 requests per second that a machine can serve. 20 % of them
// are critical, 40 % are of the default class, 40 % are batch. It returns the counts of the last
// 10 of 20 s. A response within a second is good.
func overload(t *testing.T, c *protect.SystemConfig) map[string]*tally {
	m, chain := newMachine(), protect.New(protect.Config{})
	if c != nil {
		c.Metrics = m
		s, err := protect.NewSystem(*c)
		if err != nil {
			t.Fatal(err)
		}
		chain = protect.New(protect.Config{Protections: s.Protections(false)})
	}
	all := map[string]*tally{"critical": {}, "": {}, "batch": {}}
	began := time.Now()
	var mu sync.Mutex
	var clients sync.WaitGroup
	for i := range 20 * 1200 {
		<-time.After(time.Second / 1200)
		class := []string{"critical", "", "batch", "", "batch"}[i%5]
		counts := time.Since(began) > 10*time.Second
		clients.Go(func() {
			start := time.Now()
			_, pass, err := chain.Enter(context.Background(), class)
			if err == nil {
				m.work()
				pass.End(nil)
			}
			mu.Lock()
			defer mu.Unlock()
			if one := all[class]; counts {
				one.offered++
				if err != nil {
					one.rejected++
				} else if time.Since(start) <= time.Second {
					one.good++
				}
			}
		})
	}
	clients.Wait()
	return all
}

// TestSystemAtFullCPU compares goodput at 100 % CPU with and without the rule, and checks that
// priorities are respected.
func TestSystemAtFullCPU(t *testing.T) {
	classes := []protect.Class{{Name: "critical", ShedAt: 100}, {Name: "batch", ShedAt: 70}}
	for _, c := range []struct {
		name        string
		config      *protect.SystemConfig
		least, most int // good responses of 4000 that could be served
	}{
		{"without", nil, 0, 400},
		{"by CPU", &protect.SystemConfig{CPU: 80, Classes: classes}, 3600, 4100},
		{"by requests in flight", &protect.SystemConfig{InFlight: 100, Classes: classes}, 3600, 4100},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := overload(t, c.config)
				good := 0
				for class, one := range all {
					t.Logf("%q: %+v", class, *one)
					good += one.good
				}
				if good < c.least || good > c.most {
					t.Errorf("%d good responses, want %d to %d", good, c.least, c.most)
				}
				if c.config == nil {
					return
				}
				if one := all["critical"]; one.rejected > 0 || one.good != one.offered {
					t.Errorf("critical: %+v, want all good", *one)
				}
				if one := all["batch"]; c.config.CPU > 0 && one.rejected != one.offered {
					t.Errorf("batch: %+v, want all rejected while others are", *one)
				}
			})
		})
	}
}

// TestSystemBoundsInFlight checks the share of each class.
func TestSystemBoundsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := protect.NewSystem(protect.SystemConfig{InFlight: 10, Metrics: newMachine(),
			Classes: []protect.Class{{Name: "critical", ShedAt: 100}, {Name: "batch", ShedAt: 50}}})
		if err != nil {
			t.Fatal(err)
		}
		chain := protect.New(protect.Config{Protections: s.Protections(false)})
		var passes []*protect.Pass
		for _, c := range []struct {
			class string
			want  int // in all
		}{{"batch", 5}, {"unknown", 8}, {"batch", 8}, {"critical", 10}} {
			for range 10 {
				_, pass, err := chain.Enter(context.Background(), c.class)
				if err == nil {
					passes = append(passes, pass)
					pass.Respond(nil) // streams go on
				} else if !errors.Is(err, protect.ErrInFlight) {
					t.Fatal(err)
				}
			}
			if len(passes) != c.want {
				t.Errorf("%d in flight after %q, want %d", len(passes), c.class, c.want)
			}
		}
		for _, pass := range passes {
			pass.End(nil)
		}
		if got := chain.States()["inflight"]; got != "0 of 10" {
			t.Errorf("state %s, want 0 of 10", got)
		}
	})
}

// TestSystemRules checks that rules of memory and load begin and end, and that a missing metric
// disables its rule and is reported once.
func TestSystemRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		var missing []string
		s, err := protect.NewSystem(protect.SystemConfig{Memory: 90, Load: 8, Metrics: m, Classes: []protect.Class{{Name: "critical", ShedAt: 100}},
			Missing: func(metric string, err error) { missing = append(missing, fmt.Sprint(metric, " ", err)) }})
		if err != nil {
			t.Fatal(err)
		}
		chain := protect.New(protect.Config{Protections: s.Protections(false)})
		enter := func(class string) error {
			_, pass, err := chain.Enter(context.Background(), class)
			pass.End(nil)
			return err
		}
		for i, c := range []struct {
			memory int64
			load   float64
			bad    error
			after  time.Duration
			want   error
		}{
			{memory: 90},
			{memory: 91, want: protect.ErrMemory},
			{memory: 86, after: 10 * time.Second, want: protect.ErrMemory}, // above the lower threshold
			{memory: 84, want: protect.ErrMemory},                          // for a second
			{memory: 84, want: protect.ErrMemory},
			{memory: 84, after: time.Second},
			{memory: 91, want: protect.ErrMemory},
			{memory: 91, bad: errors.New("no such file"), want: protect.ErrMemory}, // ends as below
			{memory: 91, bad: errors.New("no such file"), after: time.Second},
			{load: 9}, // nothing in flight
		} {
			m.memory, m.load, m.unreadable = c.memory, c.load, c.bad
			<-time.After(max(c.after, 300*time.Millisecond))
			if err := enter(""); !errors.Is(err, c.want) {
				t.Errorf("step %d: %v, want %v", i, err, c.want)
			}
			if err := enter("critical"); err != nil {
				t.Errorf("step %d: critical: %v", i, err)
			}
		}
		if want := []string{"memory no such file", "load no such file", "memory <nil>", "load <nil>"}; !slices.Equal(missing, want) {
			t.Errorf("missing %q, want %q", missing, want)
		}
		_, pass, _ := chain.Enter(context.Background(), "critical")
		<-time.After(300 * time.Millisecond)
		if err := enter(""); !errors.Is(err, protect.ErrLoad) {
			t.Errorf("with a request in flight: %v, want %v", err, protect.ErrLoad)
		}
		pass.End(nil)
	})
}

func TestSystemShadow(t *testing.T) {
	s, err := protect.NewSystem(protect.SystemConfig{InFlight: 1, Metrics: newMachine()})
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	chain := protect.New(protect.Config{Protections: s.Protections(true), Observe: func(name string, shadow bool) {
		if name == "inflight" && shadow {
			refused++
		}
	}})
	for range 3 {
		if _, _, err := chain.Enter(context.Background(), ""); err != nil {
			t.Fatal(err)
		}
	}
	if refused != 2 {
		t.Errorf("%d refused in shadow, want 2", refused)
	}
}

func TestSystemInvalid(t *testing.T) {
	for _, c := range []protect.SystemConfig{{CPU: 101}, {Memory: -1}, {Load: -1}, {InFlight: -1},
		{Classes: []protect.Class{{ShedAt: 1}}}, {Classes: []protect.Class{{Name: "a"}}}, {Classes: []protect.Class{{Name: "a", ShedAt: 101}}}} {
		if _, err := protect.NewSystem(c); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("NewSystem(%+v): %v, want ErrInvalid", c, err)
		}
	}
}

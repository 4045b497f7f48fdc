// Package child runs a shop in a process of its own, which tests can kill, and defines the
// messages between that process and a test.
package child

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/sale"
)

// An Order configures a shop process.
type Order struct {
	Config run.Config  // without functions
	Create *sale.Draft // a sale to create and expose at the start

	Point string // the crash point at which the process kills itself with SIGKILL …
	Visit int64  // … when it reaches that point for this time, from 1
	Stop  bool   // with SIGSTOP instead: a test continues it
	Hold  bool   // the order writers write nothing before the command "write"

	Ahead time.Duration // how far the process's clock is ahead of the true one
}

// A Line is a message of the process, one JSON object per line.
type Line struct {
	Shop, Office string // the URLs, in the first line
	Sale         string // the sale that was created
	Did          string // the command that was executed
	Error        string // why the command failed
	Changed      int    // the rows that reconcile changed; or the length of the backlog
}

// ProfileVariable is the environment variable of a directory for the CPU profile of each process.
const ProfileVariable = "FLASHSALE_PROFILES"

// Merchant owns every sale that a process creates.
const Merchant = "merchant"

// Serve runs a shop that executes commands from standard input, until its end or SIGTERM.
func Serve(text string) error {
	var o Order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	if (o.Point != "" || o.Hold) && !crashpoint.Enabled {
		return errors.New("child: crash points want a build with -tags crashpoints")
	}
	ctx := context.Background()
	if dir := os.Getenv(ProfileVariable); dir != "" {
		profile, err := os.Create(filepath.Join(dir, fmt.Sprintf("shop-%d.pprof", os.Getpid())))
		if err == nil {
			err = pprof.StartCPUProfile(profile)
		}
		if err != nil {
			return fmt.Errorf("child: %s: %w", ProfileVariable, err)
		}
		defer profile.Close()
		defer pprof.StopCPUProfile()
	}
	var visits atomic.Int64
	held := make(chan struct{})
	if !o.Hold {
		close(held)
	}
	o.Config.Crash = crashpoint.New(func(point string) {
		if point == crashpoint.WriterTook {
			<-held
		}
		if point == o.Point && visits.Add(1) == o.Visit {
			if o.Stop {
				syscall.Kill(os.Getpid(), syscall.SIGSTOP)
				return
			}
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // until the signal is delivered
		}
	})
	var ahead atomic.Int64
	ahead.Store(int64(o.Ahead))
	if o.Ahead != 0 {
		o.Config.Clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}
	o.Config.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	o.Config.Mock = len(o.Config.Payments) == 0
	s, err := run.Start(ctx, o.Config)
	if err != nil {
		return err
	}
	say := json.NewEncoder(os.Stdout)
	ready := Line{Shop: s.ShopURL, Office: s.OfficeURL}
	if o.Create != nil {
		if ready.Sale, err = create(ctx, s.Merchants, *o.Create); err != nil {
			return err
		}
	}
	say.Encode(ready)
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	commands := make(chan string)
	go func() {
		defer close(commands)
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			commands <- in.Text()
		}
		if err := in.Err(); err != nil {
			fmt.Fprintln(os.Stderr, "commands:", err)
		}
	}()
	for {
		select {
		case <-term:
			return s.Stop()
		case command, ok := <-commands:
			if !ok {
				return s.Stop()
			}
			l := Line{Did: command}
			words := strings.Fields(command)
			if command == "write" {
				close(held)
			} else if len(words) == 2 && words[0] == "clock" { // moves a clock that Ahead set
				var by time.Duration
				if by, err = time.ParseDuration(words[1]); err == nil {
					ahead.Add(int64(by))
				}
			} else {
				l.Sale, l.Changed, err = execute(ctx, s, words)
			}
			if err != nil {
				l.Error = err.Error()
			}
			say.Encode(l)
		}
	}
}

// execute runs one command: its name, a sale or a draft, and arguments.
func execute(ctx context.Context, s *run.System, words []string) (made string, changed int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if len(words) < 2 {
		return "", 0, fmt.Errorf("%q: want a command and a sale", words)
	}
	m, id := s.Merchants, words[1]
	switch words[0] {
	case "stock": // key, units
		var units int64
		if units, err = strconv.ParseInt(words[3], 10, 64); err == nil {
			_, err = m.AddStock(ctx, Merchant, id, words[2], units)
		}
	case "create": // a draft without spaces
		var d sale.Draft
		if err = json.Unmarshal([]byte(id), &d); err == nil {
			made, err = create(ctx, m, d)
		}
	case "pause":
		_, err = m.Pause(ctx, Merchant, id)
	case "resume":
		_, err = m.Resume(ctx, Merchant, id)
	case "kill":
		_, err = m.End(ctx, Merchant, id, true)
	case "backlog":
		var b sale.Dashboard
		b, err = m.Dashboard(ctx, Merchant, id)
		changed = int(b.Counts.Backlog)
	case "reconcile":
		var r sale.ReconcileResult
		r, err = m.Reconcile(ctx, Merchant, id)
		changed = r.Changed
	default:
		err = fmt.Errorf("command %q", words[0])
	}
	return made, changed, err
}

// create creates a sale and exposes it.
func create(ctx context.Context, m sale.MerchantService, d sale.Draft) (string, error) {
	const attempts = 5 // on a busy machine, a store may respond late
	var made sale.Sale
	var err error
	key := rand.Text()
	for range attempts {
		if made, err = m.Create(ctx, Merchant, key, d); !errors.Is(err, sale.ErrUnavailable) {
			break
		}
	}
	if err != nil {
		return "", err
	}
	for range attempts {
		if _, err = m.Expose(ctx, Merchant, made.ID); !errors.Is(err, sale.ErrConflict) {
			break
		}
	}
	return made.ID, err
}

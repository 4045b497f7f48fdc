package flashsale_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/sale"
)

// childVariable holds the order of a process that is to be a flash sale instead of a test.
const childVariable = "FLASHSALE_CHILD"

func TestMain(m *testing.M) {
	if order := os.Getenv(childVariable); order != "" {
		if err := serveChild(order); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		return
	}
	// These tests wait for servers more than they work.
	flag.Parse()
	if n, err := strconv.Atoi(flag.Lookup("test.parallel").Value.String()); err == nil && n < atOnce {
		flag.Set("test.parallel", strconv.Itoa(atOnce))
	}
	os.Exit(m.Run())
}

// atOnce is how many parallel tests run at once, at least.
const atOnce = 6

// A childOrder says what a child does.
type childOrder struct {
	Config run.Config  // without functions
	Create *sale.Draft // a sale to make and expose first
	Point  string      // kill this process with SIGKILL at this point …
	Visit  int64       // … when it is reached for this time, from 1
	Hold   bool        // orders are not written before the command "write"

	Ahead time.Duration // how far its clock is ahead of the true one
}

// A childLine is what a child says of itself, one JSON object a line.
type childLine struct {
	Shop, Office string // ready
	Sale         string // ready, and made
	Did          string // the command that was done
	Error        string // why it was not
	Changed      int    // of reconcile; or the entries of a backlog
}

const childMerchant = "merchant"

// serveChild runs a flash sale that obeys commands on its standard input, until that ends.
func serveChild(text string) error {
	var o childOrder
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx := context.Background()
	var visits atomic.Int64
	held := make(chan struct{})
	if !o.Hold {
		close(held)
	}
	o.Config.Fault = func(point string) {
		if point == sale.ClerkTook {
			<-held
		}
		if point == o.Point && visits.Add(1) == o.Visit {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
	}
	var ahead atomic.Int64
	ahead.Store(int64(o.Ahead))
	if o.Ahead != 0 {
		o.Config.Clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}
	o.Config.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s, err := run.Start(ctx, o.Config)
	if err != nil {
		return err
	}
	say := json.NewEncoder(os.Stdout)
	ready := childLine{Shop: s.ShopURL, Office: s.OfficeURL}
	if o.Create != nil {
		if ready.Sale, err = childCreate(ctx, s.Merchants, *o.Create); err != nil {
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
	}()
	for {
		select {
		case <-term:
			return s.Stop()
		case command, ok := <-commands:
			if !ok {
				return s.Stop()
			}
			l := childLine{Did: command}
			words := strings.Fields(command)
			if command == "write" {
				close(held)
			} else if len(words) == 2 && words[0] == "clock" { // steps, if it has a clock of its own
				var by time.Duration
				if by, err = time.ParseDuration(words[1]); err == nil {
					ahead.Add(int64(by))
				}
			} else {
				l.Sale, l.Changed, err = childObey(ctx, s, words)
			}
			if err != nil {
				l.Error = err.Error()
			}
			say.Encode(l)
		}
	}
}

// childObey does one command: its name, a sale or a draft, and arguments.
func childObey(ctx context.Context, s *run.System, words []string) (made string, changed int, err error) {
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
			_, err = m.AddStock(ctx, childMerchant, id, words[2], units)
		}
	case "create": // a draft without spaces
		var d sale.Draft
		if err = json.Unmarshal([]byte(id), &d); err == nil {
			made, err = childCreate(ctx, m, d)
		}
	case "pause":
		_, err = m.Pause(ctx, childMerchant, id)
	case "resume":
		_, err = m.Resume(ctx, childMerchant, id)
	case "kill":
		_, err = m.End(ctx, childMerchant, id, true)
	case "backlog":
		var b sale.Dashboard
		b, err = m.Dashboard(ctx, childMerchant, id)
		changed = int(b.Counts.Backlog)
	case "reconcile":
		var r sale.ReconcileResult
		r, err = m.Reconcile(ctx, childMerchant, id)
		changed = r.Changed
	default:
		err = fmt.Errorf("command %q", words[0])
	}
	return made, changed, err
}

// childCreate makes a sale and exposes it.
func childCreate(ctx context.Context, m sale.MerchantService, d sale.Draft) (string, error) {
	made, err := m.Create(ctx, childMerchant, d)
	if err == nil {
		made, err = m.Expose(ctx, childMerchant, made.ID)
	}
	return made.ID, err
}

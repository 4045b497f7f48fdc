package lab

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/accesslog"
	"github.com/floodweir/weir/cmd/weir/internal/progress"
)

// logOptions are the flags of commands that read logs.
type logOptions struct {
	format accesslog.Config
	skip   []string
	good   string
}

func (o *logOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.format.Format, "format", "", "`FORMAT` of the log: "+strings.Join(accesslog.Formats, ", ")+"; default by its first lines")
	f.StringVar(&o.format.Layout, "log-format", "", "the log_format of nginx, LogFormat of Apache or `FORMAT` of Envoy that wrote the log")
	f.BoolVar(&o.format.Sampled, "sampled", false, "read a log that says that it misses requests: denials are then too few")
	f.StringArrayVar(&o.skip, "skip", nil, "leave out a `METHOD`, such as HEAD, or paths, such as /healthz or '/static/*'; may be repeated")
	f.StringVar(&o.good, "good", "", "`FILE` with addresses or prefixes of clients that should not be denied, one per line")
}

// logHelp is the part of the help that the commands share.
const logHelp = "LOG is an access log of nginx, Apache, Envoy, Caddy or Traefik, JSON lines, CSV with the columns\n" +
	"time,client_ip,method,host,path,status (optional: key,cost,duration,user_agent), or the decision log of\n" +
	"`weir serve`. It may be compressed by gzip; - is standard input. Lines may be out of order by a minute.\n\n"

// open opens logs, and returns their readers in the order of their first entries.
func (c *Config) open(paths []string, o *logOptions) (readers []*accesslog.Reader, done func(), err error) {
	var files []io.Closer
	done = func() {
		for _, f := range files {
			_ = f.Close() // read only
		}
	}
	for _, p := range paths {
		in, name := c.Stdin, "stdin"
		if p != "-" {
			f, err := os.Open(p)
			if err != nil {
				done()
				return nil, nil, err
			}
			files = append(files, f)
			in, name = f, p
		}
		r, err := accesslog.NewReader(name, in, o.format)
		if err != nil {
			done()
			if o.format == (accesslog.Config{}) {
				err = fmt.Errorf("%w: set --format or --log-format", err)
			}
			return nil, nil, err
		}
		readers = append(readers, r)
	}
	slices.SortStableFunc(readers, func(a, b *accesslog.Reader) int { return cmp.Compare(a.First(), b.First()) })
	return readers, done, nil
}

// skips returns the filter of --skip.
func (o *logOptions) skips() (func(*accesslog.Entry) bool, error) {
	methods := map[string]bool{}
	var patterns []string
	for _, s := range o.skip {
		switch {
		case s != "" && strings.ToUpper(s) == s && !strings.Contains(s, "/"):
			methods[s] = true
		case strings.HasPrefix(s, "/"):
			if _, err := path.Match(s, ""); err != nil {
				return nil, fmt.Errorf("--skip: got %q, want a pattern such as '/static/*': %w", s, err)
			}
			patterns = append(patterns, s)
		default:
			return nil, fmt.Errorf("--skip: got %q, want a method such as HEAD or a path such as '/static/*'", s)
		}
	}
	return func(e *accesslog.Entry) bool {
		if methods[e.Method] {
			return true
		}
		p, _, _ := strings.Cut(e.Path, "?")
		for _, pattern := range patterns {
			if below, all := strings.CutSuffix(pattern, "*"); all && !strings.ContainsAny(below, "*?[") && strings.HasPrefix(p, below) {
				return true
			}
			if ok, _ := path.Match(pattern, p); ok {
				return true
			}
		}
		return false
	}, nil
}

// goodClients reads --good; it returns nil without one.
func (o *logOptions) goodClients() (func(netip.Addr) bool, error) {
	if o.good == "" {
		return nil, nil
	}
	f, err := os.Open(o.good)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	addrs := map[netip.Addr]bool{}
	var prefixes []netip.Prefix
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		text = strings.TrimSpace(text)
		if a, err := netip.ParseAddr(text); err == nil {
			addrs[a.Unmap()] = true
		} else if p, err := netip.ParsePrefix(text); err == nil {
			prefixes = append(prefixes, p.Masked())
		} else if text != "" {
			return nil, fmt.Errorf("%s:%d: got %q, want an address or a prefix such as 198.51.100.0/24", o.good, n, text)
		}
	}
	return func(a netip.Addr) bool {
		return addrs[a] || slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
	}, lines.Err()
}

// progress shows the number of lines read.
func (c *Config) progress(lines *atomic.Int64) *progress.Progress {
	return progress.Start(c.Stderr, func(d time.Duration) string {
		n := lines.Load()
		return fmt.Sprintf("%d lines, %.0f/s", n, float64(n)/d.Seconds())
	})
}

var errNoLog = errors.New("LOG: got none, want a log file or - for standard input")

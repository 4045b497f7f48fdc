package replay

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/accesslog"
	"github.com/floodweir/weir/weirfile"
)

// A Side is a policy file to try out.
type Side struct {
	Name string
	File *weirfile.File
}

// A Config configures Run. Its zero value works.
type Config struct {
	// Good reports whether an address is that of a client that should not be denied; no client
	// is known as good if nil.
	Good func(netip.Addr) bool

	// Skip reports whether a request is left out; none if nil.
	Skip func(*accesslog.Entry) bool

	// Lines, if not nil, is the number of lines read so far, for a display of progress.
	Lines *atomic.Int64
}

// batchSize is the number of entries that the replicas decide at a time.
const batchSize = 2048

// Run replays logs, in their order, and returns the report. An error wraps [weir.ErrInvalid],
// or is one of reading.
func Run(logs []*accesslog.Reader, sides []Side, c Config) (*Report, error) {
	d := &driver{sides: sides, c: c, report: &Report{}}
	batches, done := make(chan []accesslog.Entry, 4), make(chan struct{})
	var readErr error
	go func() {
		defer close(batches)
		readErr = d.read(logs, batches, done)
	}()
	var err error
	for batch := range batches {
		if err == nil {
			if err = d.decide(batch); err != nil {
				close(done)
			}
		}
	}
	for _, r := range d.replicas {
		r.close()
	}
	if err == nil {
		err = readErr
	}
	if err != nil {
		return nil, err
	}
	if d.report.Replayed == 0 {
		return nil, fmt.Errorf("log: %w: got no request to replay in %d lines", weir.ErrInvalid, d.report.Log.Lines)
	}
	return d.finish()
}

// A driver feeds the entries of logs to replicas.
type driver struct {
	sides    []Side
	c        Config
	report   *Report
	replicas []*replica // for each side one, or with whole seconds two: at the start, and evenly spaced
	coarse   bool
}

// read sends batches of entries in order. With whole seconds, a second is in one batch.
func (d *driver) read(logs []*accesslog.Reader, to chan<- []accesslog.Entry, done <-chan struct{}) error {
	var s accesslog.Sorter
	var batch []accesslog.Entry
	send := func() {
		select {
		case to <- batch:
		case <-done:
		}
		batch = make([]accesslog.Entry, 0, batchSize)
	}
	emit := func(e *accesslog.Entry) {
		if n := len(batch); n >= batchSize && (!e.Coarse || e.At != batch[n-1].At) {
			send()
		}
		batch = append(batch, *e)
	}
	r := d.report
	for _, log := range logs {
		var e accesslog.Entry
		lines := 0
		for log.Next(&e) {
			if lines++; d.c.Lines != nil && lines%1024 == 0 {
				d.c.Lines.Add(1024)
			}
			if d.c.Skip != nil && d.c.Skip(&e) {
				r.Skipped++
				continue
			}
			s.Add(&e, emit)
		}
		r.Log.Lines += log.Stats.Lines
		r.Log.Rejected += log.Stats.Rejected
		r.Log.Example = cmp.Or(r.Log.Example, log.Stats.Example)
		r.Format = cmp.Or(r.Format, log.Format)
		if err := log.Err(); err != nil {
			return err
		}
	}
	s.Flush(emit)
	r.Late = s.Late
	if len(batch) > 0 {
		send()
	}
	return nil
}

// decide lets every replica decide a batch.
func (d *driver) decide(batch []accesslog.Entry) error {
	if d.replicas == nil {
		d.coarse = batch[0].Coarse
		for _, side := range d.sides {
			for range d.spacings() {
				r, err := newReplica(side.File.Policies, batch[0].At, d.c.Good)
				if err != nil {
					return err
				}
				d.replicas = append(d.replicas, r)
			}
		}
		d.report.From = time.UnixMicro(batch[0].At).UTC()
	}
	d.report.Replayed += len(batch)
	d.report.Until = time.UnixMicro(batch[len(batch)-1].At).UTC()
	for i := range batch {
		if batch[i].Status == 429 {
			d.report.Log429++
		}
	}
	even := evenly(batch, d.coarse)
	var wg sync.WaitGroup
	for i, r := range d.replicas {
		wg.Go(func() {
			for k := range batch {
				at := batch[k].At
				if i%d.spacings() == 1 {
					at = even[k]
				}
				r.decide(&batch[k], at)
			}
		})
	}
	wg.Wait()
	return nil
}

func (d *driver) spacings() int {
	if d.coarse {
		return 2
	}
	return 1
}

// evenly returns the instants of entries, spaced evenly within each second.
func evenly(batch []accesslog.Entry, coarse bool) []int64 {
	if !coarse {
		return nil
	}
	even := make([]int64, len(batch))
	for i := 0; i < len(batch); {
		n := 1
		for i+n < len(batch) && batch[i+n].At == batch[i].At {
			n++
		}
		for k := range n {
			even[i+k] = batch[i].At + int64(k)*1e6/int64(n)
		}
		i += n
	}
	return even
}

// finish makes the report.
func (d *driver) finish() (*Report, error) {
	n := d.spacings()
	d.report.WholeSeconds = d.coarse
	for i, side := range d.sides {
		s := SideReport{Name: side.Name}
		for _, r := range d.replicas[i*n : i*n+n] {
			if r.err != nil {
				return nil, fmt.Errorf("%s: %w", side.Name, r.err)
			}
			r.counts.Clients = len(r.clients)
			s.Spacings = append(s.Spacings, r.spacing())
		}
		first := d.replicas[i*n]
		for _, what := range slices.Sorted(maps.Keys(first.missing)) {
			s.Missing = append(s.Missing, Missing{what, first.missing[what]})
		}
		s.Slot = float64(first.series.slot) / 1e6
		s.Differences = first.differ
		d.report.Sides = append(d.report.Sides, s)
	}
	return d.report, nil
}

// spacing returns the results of a replica.
func (r *replica) spacing() Spacing {
	s := Spacing{Counts: r.counts, Offered: r.series.offered, DeniedSeries: r.series.denied}
	for _, name := range slices.Sorted(maps.Keys(r.policies)) {
		s.Policies = append(s.Policies, *r.policies[name])
	}
	for a, c := range r.clients {
		agents := 0
		for _, name := range c.agents {
			if name != "" {
				agents++
			}
		}
		s.Top = append(s.Top, Client{a, c.denied, agents, time.UnixMicro(c.first).UTC(), time.UnixMicro(c.last).UTC(), r.good != nil && r.good(a)})
	}
	slices.SortFunc(s.Top, func(a, b Client) int {
		return cmp.Or(b.Denied-a.Denied, a.Address.Compare(b.Address))
	})
	s.Top = s.Top[:min(len(s.Top), maxTop)]
	return s
}

// maxTop is the number of clients in a report.
const maxTop = 50

// isStatic reports whether a path is that of a static file.
func isStatic(p string) bool {
	p, _, _ = strings.Cut(p, "?")
	switch strings.ToLower(path.Ext(p)) {
	case ".css", ".js", ".mjs", ".map", ".png", ".jpg", ".jpeg", ".gif", ".webp", ".avif", ".svg", ".ico", ".woff", ".woff2", ".ttf", ".mp4", ".webm":
		return true
	}
	return false
}

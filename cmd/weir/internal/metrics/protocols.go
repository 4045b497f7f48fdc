package metrics

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	library "github.com/floodweir/weir/metrics"
)

// Results of hits of the gRPC interface, with the names of envoyproxy/ratelimit.
const (
	TotalHits   = "total_hits"
	OverLimit   = "over_limit"
	NearLimit   = "near_limit"
	WithinLimit = "within_limit"
	ShadowMode  = "shadow_mode"
)

var hitResults = [...]string{TotalHits, OverLimit, NearLimit, WithinLimit, ShadowMode, other}

// descriptors holds the counters of hits by descriptor.
type descriptors struct {
	m        *Metrics
	max      int
	overflow library.Counter

	mu     sync.RWMutex
	known  map[descriptor]*[len(hitResults)]prometheus.Counter
	others *[len(hitResults)]prometheus.Counter // of descriptors beyond max
}

type descriptor struct{ domain, path string }

func (d *descriptors) init(m *Metrics, most int) {
	d.m, d.max = m, most
	d.overflow = m.Overflow("descriptor")
	d.known = map[descriptor]*[len(hitResults)]prometheus.Counter{}
}

// Descriptor counts hits of a limit of the gRPC interface. descriptor is the path of the
// limit in the configuration; result is [TotalHits] or another of these constants. Names
// may come from requests: at most Config.MaxSeries pairs have series of their own.
func (m *Metrics) Descriptor(domain, path, result string, hits uint64) {
	at := len(hitResults) - 1
	for i, r := range hitResults {
		if r == result {
			at = i
			break
		}
	}
	c, own := m.descriptors.of(descriptor{cut(domain), cut(path)})
	c[at].Add(float64(hits))
	if !own {
		m.descriptors.overflow.Add(1)
	}
}

// Hits has the hits of one decision by result.
type Hits struct{ Total, Over, Near, Within, Shadow uint64 }

// DescriptorHits counts the hits of one decision, as Descriptor counts those of one result.
func (m *Metrics) DescriptorHits(domain, path string, h Hits) {
	c, own := m.descriptors.of(descriptor{cut(domain), cut(path)})
	for i, n := range [...]uint64{h.Total, h.Over, h.Near, h.Within, h.Shadow} { // as hitResults
		if n > 0 {
			c[i].Add(float64(n))
		}
	}
	if !own {
		m.descriptors.overflow.Add(1)
	}
}

// cut returns what a label has of s, without a copy.
func cut(s string) string { return s[:min(len(s), library.MaxLabel)] }

func (d *descriptors) of(key descriptor) (c *[len(hitResults)]prometheus.Counter, own bool) {
	d.mu.RLock()
	c, rest := d.known[key], d.others
	d.mu.RUnlock()
	switch {
	case c != nil:
		return c, true
	case rest != nil:
		return rest, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.known[key]; c != nil {
		return c, true
	}
	if len(d.known) >= d.max {
		d.others = d.counters(descriptor{other, other})
		return d.others, false
	}
	key = descriptor{strings.Clone(key.domain), strings.Clone(key.path)} // do not keep the memory of the request
	c = d.counters(descriptor{library.Label(key.domain), library.Label(key.path)})
	d.known[key] = c
	return c, true
}

// ForgetDescriptors ends all series of descriptors, for a new configuration.
func (m *Metrics) ForgetDescriptors() {
	d := &m.descriptors
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known, d.others = map[descriptor]*[len(hitResults)]prometheus.Counter{}, nil
	m.hits.Reset()
}

func (d *descriptors) counters(names descriptor) *[len(hitResults)]prometheus.Counter {
	c := new([len(hitResults)]prometheus.Counter)
	for i, r := range hitResults {
		c[i] = d.m.hits.WithLabelValues(names.domain, names.path, r)
	}
	return c
}

// Results of commands of the RESP interface.
const (
	CommandOK      = "ok"
	CommandLimited = "limited"
	CommandError   = "error"
)

var commandResults = [...]string{CommandOK, CommandLimited, CommandError}

const results = len(commandResults)

// throttle is the main command of the RESP interface.
const throttle = "cl.throttle"

// Command counts a command of the RESP interface, in upper or lower case; unknown
// commands count as "other". result is [CommandOK], [CommandLimited] or [CommandError].
func (m *Metrics) Command(name, result string) {
	at := len(commandResults) - 1
	for i, r := range commandResults {
		if r == result {
			at = i
		}
	}
	if name == throttle || strings.EqualFold(name, throttle) {
		m.throttle[at].Inc()
		return
	}
	m.commands.WithLabelValues(commandName(name), commandResults[at]).Inc()
}

// commandName returns the label of a command.
func commandName(name string) string {
	const longest = len("command")
	if len(name) <= longest {
		name = strings.ToLower(name)
		switch name {
		case "auth", "client", "command", "config", "echo", "hello", "info", "ping", "quit", "reset", "select",
			"multi", "exec", "discard", "watch", "unwatch":
			return name
		}
	}
	return other
}

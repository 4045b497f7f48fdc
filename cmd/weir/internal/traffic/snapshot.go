package traffic

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/traffic/internal/decode"
)

const (
	// MaxSnapshot is the largest Snapshot in bytes.
	MaxSnapshot = 4 << 10

	snapshotVersion = 1
	snapshotSeconds = 3  // so that a reader may miss two
	maxSkew         = 60 // s between the clocks of nodes
	maxName         = 256
)

// ErrInvalid is the error of a snapshot that does not decode.
var ErrInvalid = errors.New("traffic: invalid encoding")

// A snapshot has the counters of the last complete seconds.
//
// The encoding begins with its version, the last second, a bit for each second with data, and the
// decision times. For each policy follow the length of its name, the name and its counts. The
// first policy is "", all of them. Numbers are varints.
type snapshot struct {
	last     int64
	present  [snapshotSeconds]bool // oldest first
	latency  [snapshotSeconds][latencyBuckets]uint32
	policies []snapshotPolicy
}

type snapshotPolicy struct {
	name   string
	counts [snapshotSeconds]Counts
}

// snapshot returns the last seconds of h, with the busiest policies first.
func (h *History) snapshot() *snapshot {
	h.mu.RLock()
	defer h.mu.RUnlock()
	s := &snapshot{last: h.last}
	first := h.last - snapshotSeconds + 1
	of := func(name string, r *ring) {
		p, total := snapshotPolicy{name: name}, uint64(0)
		for i := range p.counts {
			copy(p.counts[i][:], r.at(first+int64(i)))
			total += p.counts[i].Requests() + uint64(p.counts[i][Candidate])
		}
		if name == "" || total > 0 {
			s.policies = append(s.policies, p)
		}
	}
	for i := range s.present {
		present := h.fine.present.at(first + int64(i))
		s.present[i] = present != nil && present[0] > 0
		copy(s.latency[i][:], h.latency.at(first+int64(i)))
	}
	of("", h.fine.all)
	for name, r := range h.fine.policies {
		of(name, r)
	}
	slices.SortFunc(s.policies, func(a, b snapshotPolicy) int {
		return cmp.Or(cmp.Compare(b.requests(), a.requests()), cmp.Compare(a.name, b.name))
	})
	return s
}

// requests orders policies: "" is first.
func (p *snapshotPolicy) requests() (n uint64) {
	if p.name == "" {
		return math.MaxUint64
	}
	for i := range p.counts {
		n += p.counts[i].Requests()
	}
	return n
}

// encode returns the encoding of s. It omits the last policies if they do not fit.
func (s *snapshot) encode() []byte {
	b := binary.AppendUvarint([]byte{snapshotVersion}, uint64(max(0, s.last)))
	present := byte(0)
	for i, is := range s.present {
		if is {
			present |= 1 << i
		}
	}
	b = append(b, present)
	for i := range s.latency {
		for _, n := range s.latency[i] {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	for i := range s.policies {
		p := &s.policies[i]
		fits := len(b)
		b = binary.AppendUvarint(b, uint64(len(p.name)))
		b = append(b, p.name...)
		for _, counts := range p.counts {
			for _, n := range counts {
				b = binary.AppendUvarint(b, uint64(n))
			}
		}
		if len(b) > MaxSnapshot {
			return b[:fits]
		}
	}
	return b
}

// decodeSnapshot reads the output of encode, and nothing else.
func decodeSnapshot(data []byte) (*snapshot, error) {
	if len(data) > MaxSnapshot {
		return nil, fmt.Errorf("%w: snapshot: got %d bytes, want at most %d", ErrInvalid, len(data), MaxSnapshot)
	}
	d := decode.Decoder{Data: data}
	s := &snapshot{}
	if v := d.Byte(); v != snapshotVersion && d.Err == nil {
		return nil, fmt.Errorf("%w: snapshot: version: got %d, want %d", ErrInvalid, v, snapshotVersion)
	}
	s.last = int64(d.Uvarint(1 << 40))
	present := d.Byte()
	if present >= 1<<snapshotSeconds {
		d.Fail("seconds: got %#x, want %d bits", present, snapshotSeconds)
	}
	for i := range s.present {
		s.present[i] = present&(1<<i) != 0
		for b := range s.latency[i] {
			s.latency[i][b] = uint32(d.Uvarint(math.MaxUint32))
		}
	}
	known := map[string]bool{}
	for len(d.Data) > 0 || len(s.policies) == 0 && d.Err == nil {
		p := snapshotPolicy{name: d.Text(maxName)}
		if known[p.name] || (p.name == "") != (len(s.policies) == 0) {
			d.Fail("policies: got %q, want all policies first and each name once", p.name)
		}
		known[p.name] = true
		for i := range p.counts {
			for column := range p.counts[i] {
				p.counts[i][column] = uint32(d.Uvarint(math.MaxUint32))
			}
		}
		s.policies = append(s.policies, p)
	}
	if d.Err != nil {
		return nil, fmt.Errorf("%w: snapshot: %w", ErrInvalid, d.Err)
	}
	return s, nil
}

// Merge adds the seconds of a snapshot of a node that it does not have yet. The error of an
// invalid one wraps ErrInvalid. now bounds the time of the snapshot, so that a node with a wrong
// clock does not displace the others: its error names the difference.
func (h *History) Merge(node string, data []byte, now time.Time) error {
	s, err := decodeSnapshot(data)
	if err != nil {
		return err
	}
	if ahead := s.last - now.Unix(); ahead < -maxSkew || ahead > maxSkew {
		return fmt.Errorf("traffic: snapshot: time: got %d s from the clock of this node, want at most %d", ahead, maxSkew)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if last, ok := h.nodes[node]; !ok || s.last < last-snapshotSeconds { // new, or its clock went back
		if h.forgetNodes(now.Unix()); !ok && len(h.nodes) >= maxNodes {
			return fmt.Errorf("traffic: nodes: got more than %d", maxNodes)
		}
		h.nodes[node] = s.last - snapshotSeconds
	}
	for i := range s.present {
		second := s.last - snapshotSeconds + 1 + int64(i)
		if !s.present[i] || second <= h.nodes[node] {
			continue
		}
		h.begin(second, false)
		h.latency.add(second, s.latency[i][:])
		for k := range s.policies {
			h.add(s.policies[k].name, second, s.policies[k].counts[i][:])
		}
	}
	h.nodes[node] = max(h.nodes[node], s.last)
	return nil
}

// forgetNodes removes nodes without a recent snapshot. It requires h.mu.
func (h *History) forgetNodes(now int64) {
	for node, last := range h.nodes {
		if last < now-2*maxSkew {
			delete(h.nodes, node)
		}
	}
}

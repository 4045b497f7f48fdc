package guard

import (
	"fmt"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// A Registry knows guards. It is safe for concurrent use. It keeps every guard that it
// made: make them once, not for each call.
type Registry struct {
	memory func() (*memstore.Store, error) // made when it is first needed
	visits sync.Pool                       // of *visit
	born   time.Time

	resources sync.Map // *Guard by name

	mu     sync.Mutex // guards what follows, and the making of resources
	law    *law
	places map[string]*place
	guards []*Guard // made by Guard, in their order
	known  int      // resources
}

// A place is what the guards and resources of one name have in common.
type place struct {
	name   string
	ruling atomicRuling

	// Guarded by Registry.mu.
	point *Resource // of the guards; nil if there are none
	used  bool      // by a guard or a resource
}

// put puts a ruling into force. What waits under the one before comes under it.
func (p *place) put(now *ruling) {
	if old := p.ruling.Swap(now); old != nil && old.gate != nil {
		old.gate.Replace(now.gate)
	}
}

// NewRegistry makes a registry. An error wraps weir.ErrInvalid.
func NewRegistry(c Config) (*Registry, error) {
	r := &Registry{places: map[string]*place{}, born: time.Now()}
	r.memory = sync.OnceValues(func() (*memstore.Store, error) { return memstore.New(memstore.Config{Full: memstore.Share}) })
	r.visits.New = func() any { return new(visit) }
	if err := r.Configure(c); err != nil {
		return nil, err
	}
	return r, nil
}

// clock is a time by which calls are measured: reading it is half the price of time.Now.
func (r *Registry) clock() time.Duration { return time.Since(r.born) }

// Default is the registry of the process: that of guards in generated code. It is made
// when it is first asked for, with a memory store of its own.
func Default() *Registry { return defaultRegistry() }

// defaultRegistry is the one state of this package: see docs/decisions. Code that was
// generated for a package has no other way to reach what the program configures.
var defaultRegistry = sync.OnceValue(func() *Registry {
	r, err := NewRegistry(Config{})
	if err != nil {
		panic(err) // the zero Config is good
	}
	return r
})

// Configure puts another configuration into force for all guards, those that are made
// later included. Calls that are under way go on. Those that wait are asked about by the
// new limits when their time comes, and those that come later do not queue behind them
// until then. A key keeps what it owes under limits that change, or that are off for a
// while: see policy.Set.Following. An error wraps weir.ErrInvalid, and nothing has
// changed.
func (r *Registry) Configure(c Config) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.Store == nil {
		m, err := r.memory()
		if err != nil {
			return err
		}
		c.Store = m
	}
	l, err := newLaw(c, r.law)
	if err != nil {
		return err
	}
	next := map[*place]*ruling{}
	for name, p := range r.places {
		if p.used || l.rules[name] != nil {
			if next[p], err = l.rule(name, p.point, p.ruling.Load()); err != nil {
				return err
			}
		}
	}
	for name := range l.rules {
		if r.places[name] != nil {
			continue
		}
		p := &place{name: name}
		if next[p], err = l.rule(name, nil, nil); err != nil {
			return err
		}
	}
	r.law, r.places = l, make(map[string]*place, len(next))
	for p, ruling := range next {
		p.put(ruling)
		r.places[p.name] = p
	}
	return nil
}

// place is that of a name that is used from now on, by a guard if point is not nil. It
// requires mu.
func (r *Registry) place(name string, point *Resource) (*place, error) {
	p := r.places[name]
	if p == nil {
		p = &place{name: name}
	}
	if p.ruling.Load() == nil || point != nil && p.point == nil {
		now, err := r.law.rule(name, point, p.ruling.Load())
		if err != nil {
			return nil, err
		}
		p.put(now)
	}
	if p.point == nil {
		p.point = point
	}
	p.used = true
	r.places[name] = p
	return p, nil
}

// Guard makes a guard of a place, or returns the one that was made of an equal Point. An
// error wraps weir.ErrInvalid.
func (r *Registry) Guard(p Resource) (*Guard, error) { return r.guard(p, 1) }

// MustGuard is Guard for limits that the program text holds: it panics on an error.
func (r *Registry) MustGuard(p Resource) *Guard {
	g, err := r.guard(p, 1)
	if err != nil {
		panic(err)
	}
	return g
}

func (r *Registry) guard(p Resource, skip int) (*Guard, error) {
	p.locate(skip + 1)
	if len(p.Limits) == 0 {
		p.Limits = []weir.Limit{DefaultLimit()}
	}
	p.Limits = append([]weir.Limit(nil), p.Limits...)
	if p.Name == systemName {
		return nil, fmt.Errorf("guard: %s: name %q: %w: want another name: this one is of the rule about every call", p.where(), p.Name, weir.ErrInvalid)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.guards {
		if g.point.equal(&p) {
			return g, nil
		}
	}
	if first := r.places[p.Name]; first != nil && first.point != nil {
		if why := first.point.differs(&p); why != "" {
			return nil, fmt.Errorf("guard: %s: %w: %s: guards of one name share their buckets, want the same or another name", p.Name, weir.ErrInvalid, why)
		}
	}
	if _, err := policyOf(&p, policy.Enforce); err != nil { // whatever a rule makes of it now
		return nil, fmt.Errorf("guard: %s: %w", p.where(), err)
	}
	at, err := r.place(p.Name, &p)
	if err != nil {
		return nil, err
	}
	g := &Guard{registry: r, place: at, point: &p}
	r.guards = append(r.guards, g)
	return g, nil
}

// maxResources is how many names of resources are remembered.
const maxResources = 10_000

// restName is where calls of more resources than that are counted.
const restName = "…"

// resource is the guard of a resource.
func (r *Registry) resource(name string) (*Guard, error) {
	if g, ok := r.resources.Load(name); ok {
		return g.(*Guard), nil
	}
	if !isName(name) || name == systemName {
		return nil, fmt.Errorf("guard: resource %.80q: %w: want 1 to %d letters a to z, digits, '.', '_' and '-', with a letter or digit first, but not %q",
			name, weir.ErrInvalid, maxName, systemName)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.places[name]; r.known >= maxResources && (p == nil || p.point == nil && r.law.rules[name] == nil) {
		name = restName
	}
	if g, ok := r.resources.Load(name); ok {
		return g.(*Guard), nil
	}
	at, err := r.place(name, nil)
	if err != nil {
		return nil, err
	}
	g := &Guard{registry: r, place: at, point: &Resource{Name: name}}
	r.resources.Store(name, g)
	r.known++
	return g, nil
}

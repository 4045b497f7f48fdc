package guard

import (
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/missing"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// A Registry makes guards and configures them. It is safe for concurrent use. It keeps every
// guard: make each once, not for each call.
type Registry struct {
	memory      func() (*memstore.Store, error) // made on first use
	local       weir.Store                      // the default Options.Local
	invocations sync.Pool                       // of *invocation
	born        time.Time
	instance    atomic.Pointer[string]

	resources sync.Map // *Guard by name

	mu     sync.Mutex // guards the fields below, and the making of resources
	rules  *ruleSet
	groups map[string]*group
	guards []*Guard // made by Guard, in order
	known  int      // resources
}

// A group is shared by the guards and resources of one name.
type group struct {
	name     string
	resolved atomic.Pointer[resolved]

	// Guarded by Registry.mu.
	resource *Resource // of the guards; nil if there are none
	used     bool      // by a guard or a resource
}

// replace puts now into force. Calls that wait under the previous rules are decided by it.
func (p *group) replace(now *resolved) {
	if old := p.resolved.Swap(now); old != nil && old.enforcer != nil {
		old.enforcer.Replace(now.enforcer)
	}
}

// NewRegistry returns a registry. An error wraps weir.ErrInvalid.
func NewRegistry(c Config) (*Registry, error) {
	r := &Registry{groups: map[string]*group{}, local: enforce.NewLocal(), born: time.Now()}
	r.memory = sync.OnceValues(func() (*memstore.Store, error) { return memstore.New(memstore.Config{Full: memstore.Share}) })
	r.invocations.New = func() any { return new(invocation) }
	instance := rand.Text()
	r.instance.Store(&instance)
	if err := r.Configure(c); err != nil {
		return nil, err
	}
	return r, nil
}

// clock returns a monotonic time to measure calls. It costs half as much as time.Now.
func (r *Registry) clock() time.Duration { return time.Since(r.born) }

// Default returns the registry of the process, which generated code uses. It is made on first
// use, with its own memory store.
func Default() *Registry { return defaultRegistry() }

// defaultRegistry is the only state of this package: see docs/decisions. Generated code has no
// other way to reach what the program configures.
var defaultRegistry = sync.OnceValue(func() *Registry {
	r, err := NewRegistry(Config{})
	if err != nil {
		panic(err) // the zero Config is valid
	}
	return r
})

// Instance returns Config.Instance, for keys: the limits are then those of this process, also in a
// store that several processes share.
func (r *Registry) Instance() string { return *r.instance.Load() }

// Configure puts another configuration into force for all guards, also for later ones. Admitted
// calls are not affected. Calls that wait are decided by the new limits when their wait ends;
// until then later calls do not queue behind them. A key keeps its debt under limits that change
// or are off for a while: see policy.Set.WithPrevious. An error wraps weir.ErrInvalid, and
// nothing has changed.
func (r *Registry) Configure(c Config) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.Store == nil {
		m, err := r.memory()
		if err != nil {
			return err
		}
		c.Store = m
	} else if missing.Value(c.Store) {
		return invalid("Store", "want a store or none, got a nil %T", c.Store)
	}
	if c.Local == nil {
		c.Local = r.local
	}
	if c.Instance == "" {
		c.Instance = *r.instance.Load()
	}
	l, err := newRuleSet(c, r.rules)
	if err != nil {
		return err
	}
	next := map[*group]*resolved{}
	for name, p := range r.groups {
		if p.used || l.byName[name] != nil {
			if next[p], err = l.resolve(name, p.resource, p.resolved.Load()); err != nil {
				return err
			}
		}
	}
	for name := range l.byName {
		if r.groups[name] != nil {
			continue
		}
		p := &group{name: name}
		if next[p], err = l.resolve(name, nil, nil); err != nil {
			return err
		}
	}
	r.instance.Store(&l.c.Instance)
	r.rules, r.groups = l, make(map[string]*group, len(next))
	for p, ruling := range next {
		p.replace(ruling)
		r.groups[p.name] = p
	}
	return nil
}

// group returns the group of a name, used by a guard if resource is not nil. It requires mu.
func (r *Registry) group(name string, point *Resource) (*group, error) {
	p := r.groups[name]
	if p == nil {
		p = &group{name: name}
	}
	if p.resolved.Load() == nil || point != nil && p.resource == nil {
		now, err := r.rules.resolve(name, point, p.resolved.Load())
		if err != nil {
			return nil, err
		}
		p.replace(now)
	}
	if p.resource == nil {
		p.resource = point
	}
	p.used = true
	r.groups[name] = p
	return p, nil
}

// Guard returns a guard for p: a new one, or the one that was made for an equal Resource. An error
// wraps weir.ErrInvalid.
func (r *Registry) Guard(p Resource) (*Guard, error) { return r.guard(p, 1) }

// MustGuard calls Guard, and panics on an error.
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
		return nil, fmt.Errorf("guard: %s: name %q: %w: want another name: this one is reserved for the system rule", p.where(), p.Name, weir.ErrInvalid)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.guards {
		if g.resource.equal(&p) {
			return g, nil
		}
	}
	if first := r.groups[p.Name]; first != nil && first.resource != nil {
		if why := first.resource.differs(&p); why != "" {
			return nil, fmt.Errorf("guard: %s: %w: %s: guards of one name share their buckets, want the same or another name", p.Name, weir.ErrInvalid, why)
		}
	}
	if _, err := policyOf(&p, policy.Enforce); err != nil { // also if a rule replaces it now
		return nil, fmt.Errorf("guard: %s: %w", p.where(), err)
	}
	at, err := r.group(p.Name, &p)
	if err != nil {
		return nil, err
	}
	g := &Guard{registry: r, group: at, resource: &p}
	r.guards = append(r.guards, g)
	return g, nil
}

// maxResources bounds the names of resources that are kept.
const maxResources = 10_000

// restName is the name under which calls of further resources are counted.
const restName = "…"

// resource returns the guard of a resource.
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
	if p := r.groups[name]; r.known >= maxResources && (p == nil || p.resource == nil && r.rules.byName[name] == nil) {
		name = restName
	}
	if g, ok := r.resources.Load(name); ok {
		return g.(*Guard), nil
	}
	at, err := r.group(name, nil)
	if err != nil {
		return nil, err
	}
	g := &Guard{registry: r, group: at, resource: &Resource{Name: name}}
	r.resources.Store(name, g)
	r.known++
	return g, nil
}

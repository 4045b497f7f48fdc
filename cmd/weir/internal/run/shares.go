package run

import (
	"context"
	"errors"
	"log/slog"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/share"
)

// A division selects the limits that processes divide.
type division struct {
	policies *policy.Set
	rest     policy.Shares // for limits without a policy
}

// divide divides the limits that g selects from now on.
func (s *stores) divide(g *generation, log *slog.Logger) {
	if s.regional != nil {
		s.regional.policies.Store(g.policies)
	}
	d := &division{g.policies, g.config.Shares}
	any := d.rest.Auto
	for _, p := range g.policies.Policies() {
		any = any || p.Config().Shares.Auto
	}
	switch {
	case !any:
		d = nil
	case s.shares == nil && s.divided.Load() == nil:
		log.Warn("shares have no effect: a memory store has no other processes to divide limits among; set the store to a Redis or PostgreSQL", "store", s.name)
	}
	s.divided.Store(d)
}

// terms returns whether the limits of a key are divided, and how.
func (s *stores) terms(key string) (share.Terms, bool) {
	d := s.divided.Load()
	if d == nil {
		return share.Terms{}, false
	}
	shares, found := d.policies.Shares(key)
	if !found {
		shares = d.rest
	}
	return share.Terms{Lease: shares.Lease, Largest: shares.Largest}, shares.Auto
}

// returnShares returns the shares of a store, so that other processes get them at once.
func returnShares(s *share.Store, log *slog.Logger) {
	if err := s.Close(); err != nil {
		log.Warn("shares not returned: others get them when their leases end", "error", err)
	}
}

// explainShares returns how a limit of a key is divided, or the reason why it is not. Both are zero if
// no division is configured for the key.
func (s *stores) explainShares(ctx context.Context, key string, l weir.Limit) (*share.Division, error) {
	if r := s.regional; r != nil {
		own, _, err := r.store.Limits(key, l)
		if err != nil || own.IsZero() {
			return nil, nil // explainRegion says so
		}
		l = own
	}
	switch _, divided := s.terms(key); {
	case !divided:
		return nil, nil
	case s.shares == nil:
		return nil, errors.New("the store is in the memory of this process")
	}
	if err := share.Supports(l); err != nil {
		return nil, err
	}
	v, err := s.shares.Explain(ctx, key, l)
	return &v, err
}

package explain

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/share"
)

// A Division returns how a limit of a key is divided among processes, or why it is not. Both are nil
// if shares are off for the key.
type Division func(ctx context.Context, key string, l weir.Limit) (*share.Division, error)

// DivisionOf returns a Division by the policies alone, as if no process held a share.
func DivisionOf(set *policy.Set) Division {
	return func(_ context.Context, key string, l weir.Limit) (*share.Division, error) {
		if s, _ := set.Shares(key); !s.Auto {
			return nil, nil
		}
		if err := share.Supports(l); err != nil {
			return nil, err
		}
		return &share.Division{Limit: l, Remainder: 1}, nil
	}
}

// Shares describes how processes divide a limit of a key.
type Shares struct {
	// Clients reports whether the holders are clients of Envoy's quota service.
	Clients bool `json:"clients,omitempty"`

	// Strict is the reason why the limit is not divided; empty if it is.
	Strict string `json:"strict,omitempty"`

	// Problem is the reason why the ledger was not read.
	Problem string `json:"problem,omitempty"`

	Remainder float64  `json:"remainder"` // the part of the capacity that no process holds
	Stranded  float64  `json:"stranded"`  // the part of the rate that holders have above their demand
	Holders   []Holder `json:"holders,omitempty"`
}

// A Holder is a process with a share, or with demand for one.
type Holder struct {
	ID     string  `json:"id"`
	Self   bool    `json:"self,omitempty"`   // the process that explains
	Rate   float64 `json:"rate"`             // its part of the rate; 0 if it waits for a share
	Demand float64 `json:"demand"`           // tokens per second
	Lease  Seconds `json:"lease"`            // after a renewal
	Former bool    `json:"former,omitempty"` // of a former limit, until the lease ends
}

// sharesOf returns how the limit of a request is divided, or nil.
func (e *explanation) sharesOf(r *weir.Request) *Shares {
	if e.shares == nil {
		return nil
	}
	return describe(e.shares(e.ctx, r.Key, r.Limit))
}

// describe returns a division, or why it is not known; nil if there is none.
func describe(v *share.Division, err error) *Shares {
	switch {
	case errors.Is(err, weir.ErrUnavailable):
		return &Shares{Problem: err.Error()}
	case err != nil:
		_, reason, cut := strings.Cut(err.Error(), "cannot be divided: ")
		if !cut {
			reason = err.Error()
		}
		return &Shares{Strict: reason}
	case v == nil:
		return nil
	}
	return SharesOf(v)
}

// SharesOf returns the description of a division.
func SharesOf(v *share.Division) *Shares {
	s := &Shares{Remainder: v.Remainder, Stranded: v.Stranded}
	for _, h := range v.Holders {
		s.Holders = append(s.Holders, Holder{
			ID: strconv.FormatUint(h.ID, 16), Self: h.Self, Rate: h.Rate, Demand: h.Demand, Lease: Seconds(h.Lease), Former: h.Former,
		})
	}
	return s
}

func (s *Shares) write(b *strings.Builder) {
	switch {
	case s == nil:
		return
	case s.Strict != "":
		fmt.Fprintf(b, "      not divided: %s\n", Printable(s.Strict))
		return
	case s.Problem != "":
		fmt.Fprintf(b, "      shares unknown: %s\n", Printable(s.Problem))
		return
	}
	one, many := "process", "processes"
	if s.Clients {
		one, many = "client", "clients"
	}
	if len(s.Holders) == 0 {
		fmt.Fprintf(b, "      divided: no %s holds a share\n", one)
		return
	}
	held := 0.0
	for _, h := range s.Holders {
		held += h.Rate
	}
	holders := fmt.Sprintf("1 %s holds", one)
	if n := len(s.Holders); n > 1 {
		holders = fmt.Sprintf("%d %s hold", n, many)
	}
	fmt.Fprintf(b, "      divided: %s %.1f%% of the rate, %.1f%% more than their demand\n", holders, 100*held, 100*s.Stranded)
}

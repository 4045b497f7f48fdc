package adjustment

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/adjusted"
	"github.com/floodweir/weir/policy"
)

// Max is the largest number of adjustments.
const Max = 10_000

// A Kind selects what an adjustment does.
type Kind string

// The kinds. Raise has other limits, Freeze and Block deny all requests.
const (
	Raise  Kind = adjusted.Raise
	Freeze Kind = "freeze"
	Block  Kind = "block"
)

// An Adjustment is an adjustment of one key.
type Adjustment struct {
	Policy   string
	Key      []string // see policy.Adjustment.Key
	StateKey string   // of its states, such as policy.Charge.Key

	Kind   Kind
	Limits []string // of a raise

	Until time.Time     // zero: until it is lifted
	For   time.Duration // Set: replaces Until by a time after now

	Reason, By string
	At         time.Time // Set sets it

	Nginx string // JSON of package edge: Limits of a raise for nginx

	ID      string // in JSON, of package keyid; for package operate
	Problem string // why it is not in force, for List of package operate
}

// MarshalJSON implements [json.Marshaler].
func (a Adjustment) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		ID     string   `json:"id"`
		Policy string   `json:"policy"`
		Key    []string `json:"key,omitempty"`
		Kind   Kind     `json:"kind"`
		Limits []string `json:"limits,omitempty"`
		Until  *string  `json:"until"`
		Reason string   `json:"reason"`
		By     string   `json:"by"`
		At     *string  `json:"at"`
		Bad    string   `json:"problem,omitempty"`
	}{a.ID, a.Policy, a.Key, a.Kind, a.Limits, stamp(a.Until), a.Reason, a.By, stamp(a.At), a.Problem})
}

func stamp(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	return &text
}

// String describes a for operators, such as "frozen by mei: ticket 812".
func (a *Adjustment) String() string {
	var what string
	switch a.Kind {
	case Raise:
		what = "raised to " + texts(a.Limits)
	case Freeze:
		what = "frozen"
	default:
		what = "blocked"
	}
	switch {
	case a.For > 0:
		what += " for " + a.For.String()
	case !a.Until.IsZero():
		what += " until " + *stamp(a.Until)
	}
	return fmt.Sprintf("%s by %s: %s", what, a.By, a.Reason)
}

func texts(limits []string) (text string) {
	for i, l := range limits {
		if i > 0 {
			text += ", "
		}
		text += l
	}
	return text
}

// ForSet returns a for policy.Set.WithAdjustments.
func (a *Adjustment) ForSet() (policy.Adjustment, error) {
	p := policy.Adjustment{Policy: a.Policy, Key: a.Key, Block: a.Kind != Raise, Note: a.String()}
	for _, text := range a.Limits {
		l, err := weir.ParseLimit(text)
		if err != nil {
			return p, err
		}
		p.Limits = append(p.Limits, l)
	}
	return p, nil
}

// Errors of Set and Lift about the present adjustment of the key.
var (
	ErrNone   = errors.New("adjustment: the key is not adjusted")
	ErrDenied = errors.New("adjustment: the key is frozen or blocked")
	ErrFull   = fmt.Errorf("adjustment: at most %d keys are adjusted", Max)
)

// record returns a in the form of Redis. The script prepends Until and At.
func (a *Adjustment) record() adjusted.Record {
	r := adjusted.Record{Policy: a.Policy, State: []byte(a.StateKey), Kind: string(a.Kind), Limits: a.Limits, Reason: a.Reason, By: a.By, Nginx: json.RawMessage(a.Nginx)}
	for _, k := range a.Key {
		r.Key = append(r.Key, []byte(k))
	}
	return r
}

func (a *Adjustment) encode() string {
	text, err := json.Marshal(a.record())
	if err != nil { // impossible for strings and numbers
		panic(err)
	}
	return string(text)
}

// ForPrograms returns the JSON of all for Go programs, which need neither their reasons, their
// authors nor the limits for nginx.
func ForPrograms(all []Adjustment) string {
	records := make([]adjusted.Record, 0, len(all))
	for i := range all {
		r := all[i].record()
		if r.State, r.Reason, r.By, r.Nginx = nil, "", "", nil; !all[i].Until.IsZero() {
			r.Until = all[i].Until.UnixMilli()
		}
		records = append(records, r)
	}
	text, err := json.Marshal(records)
	if err != nil { // impossible for strings and numbers
		panic(err)
	}
	return string(text)
}

func decode(text string) (Adjustment, error) {
	r, err := adjusted.Decode(text)
	if err != nil {
		return Adjustment{}, err
	}
	return of(r), nil
}

// of returns the Adjustment of a record.
func of(r adjusted.Record) Adjustment {
	a := Adjustment{
		Policy: r.Policy, Key: r.Values(), StateKey: string(r.State), Kind: Kind(r.Kind), Limits: r.Limits,
		Reason: r.Reason, By: r.By, Nginx: string(r.Nginx), At: time.UnixMilli(r.At).UTC(),
	}
	if r.Until > 0 {
		a.Until = time.UnixMilli(r.Until).UTC()
	}
	return a
}

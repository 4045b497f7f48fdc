// Package publish publishes policy files to the nodes of a store, for `weir apply` and the
// admin interface.
package publish

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/floodweir/weir/cmd/weir/internal/edge"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/weirfile"
	"github.com/floodweir/weir/weirfile/published"
)

// maxReason is the maximum length of an error that is published for nginx, in bytes.
const maxReason = 1000

// Plan returns the plan of the policies of f for nginx, in JSON. If there is none, it
// returns the reason, also in JSON: nginx then keeps its current policies.
func Plan(f *weirfile.File, o edge.Options) (plan string, unsupported error) {
	o.Regions = f.Regions != nil
	compiled, err := edge.Compile(f.Policies, o)
	if err == nil {
		return compiled.JSON(), nil
	}
	return noPlan(err), err
}

func noPlan(err error) string {
	text, _ := json.Marshal(map[string]string{"error": fmt.Sprintf("%.*s", maxReason, err)}) // no error: strings only
	return string(text)
}

// Options returns the options of the plan for nginx with which a version was published, for the
// policies of f. The names of policies that f does not have are left out, unless that are all.
func Options(v published.Version, f *weirfile.File) edge.Options {
	o := edge.Options{Local: policy.FailMode(v.EdgeLocal)}
	for _, name := range v.EdgeOnly {
		if f.Policies.Policy(name) != nil {
			o.Only = append(o.Only, name)
		}
	}
	if len(o.Only) == 0 {
		o.Only = v.EdgeOnly // an error of Plan
	}
	return o
}

// A Rollback describes a rollback.
type Rollback struct {
	To    int64 // the version to publish again; 0: the one before the current version
	By    string
	Note  string       // "back to version N" if empty
	After *int64       // the version that must be current; the one that Publish reads if nil
	Edge  edge.Options // those of the version if zero
}

// Publish publishes the text of an earlier version as a new version. unsupported is the
// reason why nginx keeps its policies, or nil.
func (b Rollback) Publish(ctx context.Context, conn redisstore.Conn) (v published.Version, unsupported, err error) {
	current, err := published.Current(ctx, conn)
	if err != nil {
		return v, nil, err
	}
	switch {
	case current == 0:
		return v, nil, errors.New("no policies published yet")
	case b.To == 0 && current == 1:
		return v, nil, errors.New("version 1 is the current version: there is none before it")
	case b.To == 0:
		b.To = current - 1
	}
	if b.After == nil {
		b.After = &current
	}
	old, err := published.Get(ctx, conn, b.To)
	if errors.Is(err, published.ErrNone) {
		return v, nil, fmt.Errorf("version %d not found (the last %d are kept): %w", b.To, published.Keep, err)
	}
	if err != nil {
		return v, nil, err
	}
	if b.Note == "" {
		b.Note = fmt.Sprintf("back to version %d", b.To)
	}
	if len(b.Edge.Only) == 0 {
		b.Edge.Only = old.EdgeOnly
	}
	b.Edge.Local = cmp.Or(b.Edge.Local, policy.FailMode(old.EdgeLocal))
	d := published.Draft{Text: old.Text, By: b.By, Note: b.Note, After: b.After, EdgeOnly: b.Edge.Only, EdgeLocal: string(b.Edge.Local)}
	if f, err := weirfile.Parse(fmt.Sprintf("version %d", b.To), []byte(old.Text)); err != nil {
		d.Edge, unsupported = noPlan(err), err
	} else {
		d.Edge, unsupported = Plan(f, b.Edge)
	}
	v, err = published.Publish(ctx, conn, d)
	return v, unsupported, err
}

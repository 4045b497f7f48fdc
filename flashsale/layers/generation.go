package layers

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/contrib/failsafe"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile"
)

// shopRule is the name of the rule for L4 in a policy file.
const shopRule = "shop"

// generation holds the handlers of one policy file.
type generation struct {
	policies *policy.Set
	limits   *httplimit.Middleware
	handler  http.Handler // applies the limits, and then calls the next handler of the request's record
}

// adopt puts a parsed file into force.
func (l *Layers) adopt(f *weirfile.File) error {
	l.reload.Lock()
	defer l.reload.Unlock()
	if err := checkFile(f); err != nil {
		return err
	}
	next, err := l.generation(f)
	if err != nil {
		return err
	}
	err = l.registry.Configure(guard.Config{Store: l.store, Options: enforce.Options{Local: l.local}, Functions: f.Functions, Protections: failsafe.New})
	if err != nil {
		return fmt.Errorf("layers: functions: %w", err)
	}
	if old := l.now.Swap(next); old != nil {
		old.limits.Replace(next.limits)
	}
	return nil
}

func (l *Layers) generation(f *weirfile.File) (*generation, error) {
	set := f.Policies
	if l.c.Front || set == nil {
		set = new(policy.Set)
	}
	if old := l.now.Load(); old != nil {
		set = set.WithPrevious(old.policies)
	}
	client := l.client
	if len(f.Gateway.Client.Trusted) > 0 {
		client = f.Gateway.Client
	}
	m, err := httplimit.New(l.store, set, httplimit.Config{
		Client:      client,
		Fields:      cmp.Or(f.Gateway.Fields, httplimit.Draft08),
		RetryJitter: cmp.Or(f.Gateway.RetryJitter, time.Second),
		Options:     enforce.Options{Local: l.local},
	})
	if err != nil {
		return nil, fmt.Errorf("layers: %w", err)
	}
	return &generation{set, m, m.Wrap(http.HandlerFunc(admitted))}, nil
}

// checkFile refuses a file without the bulkhead of L4, and a policy that names no layer.
func checkFile(f *weirfile.File) error {
	if f.Policies == nil || len(f.Policies.Policies()) == 0 {
		return fmt.Errorf("layers: policies: %w: want those of L1 and L2, got none; mode: off turns one off", weir.ErrInvalid)
	}
	for _, p := range f.Policies.Policies() {
		switch layer := p.Config().OnDenied.Headers[LayerHeader]; sale.Layer(layer) {
		case sale.L1, sale.L2:
		default:
			return fmt.Errorf("layers: policy %q: on_denied.headers.%s %.20q: %w: want L1 or L2", p.Name(), LayerHeader, layer, weir.ErrInvalid)
		}
	}
	if f.Functions != nil {
		i := slices.IndexFunc(f.Functions.Rules, func(r guard.Rule) bool { return r.Name == shopRule })
		if i >= 0 && f.Functions.Rules[i].Settings.Bulkhead != nil {
			return nil
		}
	}
	return fmt.Errorf("layers: functions.rules: %w: want one of the name %q with a bulkhead, which bounds the requests under way", weir.ErrInvalid, shopRule)
}

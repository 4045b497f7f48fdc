package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/guard"
)

// TestKeyPanics checks that calls whose key panics share the bucket of calls with an empty key,
// and that they are counted.
func TestKeyPanics(t *testing.T) {
	type user struct{ id string }
	var faults []string
	r := registry(t, guard.Config{Observe: func(_ context.Context, name string, e enforce.Event) {
		if e.Fault != nil {
			faults = append(faults, name+" "+e.Fault.Error())
		}
	}})
	g := r.MustGuard(guard.Resource{Name: "f", Limits: limits("3/h")})
	enter := func(u *user, n int64) error {
		_, err := g.EnterFunc(context.Background(), n, func() string { return u.id })
		return err
	}
	wrapped := guard.Action(g, func(context.Context, *user) error { return nil }, guard.ActionOptions[*user]{Key: func(u *user) string { return u.id }})
	for i, err := range []error{enter(&user{"anna"}, 3), enter(nil, 2), wrapped(context.Background(), nil)} {
		if err != nil {
			t.Errorf("call %d: %v, want it admitted", i, err)
		}
	}
	if _, err := g.Enter(context.Background(), ""); !errors.Is(err, guard.ErrDenied) {
		t.Errorf("a call with an empty key: %v, want a denial", err)
	}
	if err := enter(&user{"anna"}, 1); !errors.Is(err, guard.ErrDenied) {
		t.Errorf("a call for anna: %v, want a denial", err)
	}
	text, _ := json.Marshal(r.Live()[0])
	if s := r.Live()[0]; s.KeyFaults != 2 || s.Passed != 3 || !strings.Contains(string(text), `"key_faults":2`) {
		t.Errorf("%s, want 2 faults and 3 passed", text)
	}
	fault := `f policy "f": key[0]: panic: runtime error: invalid memory address or nil pointer dereference`
	if len(faults) != 2 || faults[0] != fault || faults[1] != fault {
		t.Errorf("observed %q, want %q twice", faults, fault)
	}
	if _, err := (*guard.Guard)(nil).EnterFunc(context.Background(), 1, nil); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("nil: %v, want ErrInvalid", err)
	}
}

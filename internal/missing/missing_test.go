package missing_test

import (
	"testing"

	"github.com/floodweir/weir/internal/missing"
)

func TestValue(t *testing.T) {
	var pointer *int
	for _, v := range []any{nil, pointer} {
		if !missing.Value(v) {
			t.Errorf("Value(%#v) = false", v)
		}
	}
	for _, v := range []any{new(int), 0, "", struct{}{}} {
		if missing.Value(v) {
			t.Errorf("Value(%#v) = true", v)
		}
	}
}

func TestFirst(t *testing.T) {
	var unset *int
	set := new(int)
	if v, found := missing.First[any](set, unset, nil); v != any(unset) || !found {
		t.Errorf("First(set, unset, nil) = %#v, %t, want the unset pointer", v, found)
	}
	if v, found := missing.First[any](set); v != nil || found {
		t.Errorf("First(set) = %#v, %t, want none", v, found)
	}
}

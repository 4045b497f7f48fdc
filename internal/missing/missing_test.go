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

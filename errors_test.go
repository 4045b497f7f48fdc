package weir_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/floodweir/weir"
)

// TestOverloadError checks that an overload is ErrOverloaded, carries its RetryAfter through
// other errors, and is not ErrUnavailable: callers that admit requests without a store must
// not admit it.
func TestOverloadError(t *testing.T) {
	err := fmt.Errorf("failover: %w", &weir.OverloadError{Reason: "store queue full", RetryAfter: time.Second})
	if !errors.Is(err, weir.ErrOverloaded) || errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("%v: Is(ErrOverloaded) = %v, Is(ErrUnavailable) = %v, want true and false", err, errors.Is(err, weir.ErrOverloaded), errors.Is(err, weir.ErrUnavailable))
	}
	var e *weir.OverloadError
	if !errors.As(err, &e) || e.RetryAfter != time.Second {
		t.Errorf("As(%v) = %+v, want a RetryAfter of 1s", err, e)
	}
	for want, e := range map[string]*weir.OverloadError{
		"overloaded: store queue full; retry after 1s": {Reason: "store queue full", RetryAfter: time.Second},
		"overloaded: scheduling delay":                 {Reason: "scheduling delay"},
	} {
		if e.Error() != want {
			t.Errorf("Error() = %q, want %q", e.Error(), want)
		}
	}
}

package storetest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// A recorder is a test that is run to see whether it fails.
type recorder struct {
	testing.TB // what is not overridden is not used, or panics

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func (r *recorder) Helper()                  {}
func (r *recorder) Logf(string, ...any)      {}
func (r *recorder) Log(...any)               {}
func (r *recorder) Context() context.Context { return context.Background() }
func (r *recorder) Cleanup(f func())         { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }

// failuresOf runs f to its end, or to its first Fatal, and returns how it failed.
func failuresOf(f func(tb testing.TB)) []string {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for i := len(r.cleanups) - 1; i >= 0; i-- {
				r.cleanups[i]()
			}
		}()
		defer func() {
			if p := recover(); p != nil {
				r.Errorf("panic: %v", p)
			}
		}()
		f(r)
	}()
	<-done
	return r.failures
}

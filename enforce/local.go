package enforce

import (
	"context"
	"sync"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

// NewLocal returns the default of Options.Local: a store in the memory of this process, which
// is made at the first request. It decides by the whole limits, so several processes together
// admit a multiple of them. A store of package failover decides by the share of each process.
func NewLocal() weir.Store {
	return &local{sync.OnceValues(func() (*memstore.Store, error) {
		return memstore.New(memstore.Config{Full: memstore.Share})
	})}
}

type local struct {
	open func() (*memstore.Store, error)
}

// Do implements [weir.Store].
func (l *local) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	store, err := l.open()
	if err != nil {
		return weir.Decision{}, err
	}
	return store.Do(ctx, r)
}

// DoAll implements [weir.Store].
func (l *local) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	store, err := l.open()
	if err != nil {
		return false, err
	}
	return store.DoAll(ctx, rs, ds)
}

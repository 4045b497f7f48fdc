package engine

import "errors"

// An Engine is a sale.Gate in this process. It is safe for concurrent use. Make it with New.
type Engine struct{ cfg Config }

// New returns an Engine without any state. An error names the field that is wrong. Stop it
// when it is not needed any more.
func New(cfg Config) (*Engine, error) { return nil, errors.New("engine: not there yet") }

// Stop ends the Engine and its goroutines, after what was reserved is in the Journal. From
// then on every method is an error that wraps sale.ErrUnavailable. It may be called again.
func (e *Engine) Stop() {}

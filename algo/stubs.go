package algo

import "errors"

// Replaced one by one as the real files arrive.
var errStub = errors.New("not built yet")

type Queueing struct {
	Queue bool  // admit with a delay what is above the rate, instead of at once
	Free  int64 // of a queue: how many are let through without a delay
}

func NewIntervalBucket(count, period, burst int64, epoch bool) (Rule, error) { return nil, errStub }
func NewWarmupBucket(count, period, warmup, burst int64) (Rule, error)       { return nil, errStub }
func NewPrimed(inner Rule, initial int64) (Rule, error)                      { return nil, errStub }
func NewLeakyBucket(count, period, burst int64, q Queueing) (Rule, error)    { return nil, errStub }
func NewLimitReq(count, period, burst int64, q Queueing) (Rule, error)       { return nil, errStub }

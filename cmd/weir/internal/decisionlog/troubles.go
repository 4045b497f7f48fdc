package decisionlog

import (
	"sync"
	"time"
)

const (
	// troubleEvery is how often one policy is told to have trouble.
	troubleEvery = time.Second
	// maxTroubled is how many policies are told apart: all others are one.
	maxTroubled = 1000
)

// troubles remember which policies were told to have trouble, and when.
type troubles struct {
	mu       sync.Mutex
	policies map[string]*trouble
}

type trouble struct {
	next       time.Time // before which nothing is said
	suppressed int64     // since the last time
}

// speak reports whether the trouble of a policy is to be told, and how often it was
// not since the time before.
func (t *troubles) speak(policy string, now time.Time) (speak bool, before int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.policies[policy]
	if p == nil && len(t.policies) >= maxTroubled {
		policy = ""
		p = t.policies[policy]
	}
	if p == nil {
		if t.policies == nil {
			t.policies = map[string]*trouble{}
		}
		p = &trouble{}
		t.policies[policy] = p
	}
	if now.Before(p.next) {
		p.suppressed++
		return false, 0
	}
	before, p.suppressed, p.next = p.suppressed, 0, now.Add(troubleEvery)
	return true, before
}

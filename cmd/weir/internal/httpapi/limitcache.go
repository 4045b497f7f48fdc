package httpapi

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/floodweir/weir"
)

// A limitCache caches limits by their text, because parsing one costs more than deciding by
// it. Texts with the same slot replace each other, so it is bounded whatever clients send.
type limitCache struct {
	seed  maphash.Seed
	known [512]atomic.Pointer[cachedLimit]
}

type cachedLimit struct {
	text  string
	limit weir.Limit
}

// maxCachedText is the maximum length of a text in a limitCache, in bytes.
const maxCachedText = 128

func newLimitCache() *limitCache { return &limitCache{seed: maphash.MakeSeed()} }

// parse returns weir.ParseLimit(text).
func (c *limitCache) parse(text string) (weir.Limit, error) {
	if len(text) > maxCachedText {
		return weir.ParseLimit(text)
	}
	at := &c.known[maphash.String(c.seed, text)%uint64(len(c.known))]
	if k := at.Load(); k != nil && k.text == text {
		return k.limit, nil
	}
	l, err := weir.ParseLimit(text)
	if err == nil {
		at.Store(&cachedLimit{text, l})
	}
	return l, err
}

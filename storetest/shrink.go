package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/floodweir/weir/storetest/internal/story"
)

var background = context.Background()

// shrinkTries bounds how many shorter histories are tried.
const shrinkTries = 500

// shrink returns the shortest part of a history that it finds for which a new store and
// a new Model differ, as a story with the Model's answers.
func shrink(tb testing.TB, open Open, steps []story.Step, diff string) string {
	tries := 0
	// differs plays a history and cuts it off at the first difference.
	differs := func(steps []story.Step) ([]story.Step, string) {
		if tries++; tries > shrinkTries || len(steps) == 0 {
			return nil, ""
		}
		h := open(tb)
		if h.Close != nil {
			defer h.Close()
		}
		p := newPair(h, steps[0].Now)
		for i := range steps {
			if diff := p.step(&steps[i]); diff != "" {
				return steps[:i+1], diff
			}
		}
		return nil, ""
	}
	best, found := differs(copySteps(steps))
	if best == nil {
		return fmt.Sprintf("A new store does not differ after the same history:\n%s", story.Format(steps))
	}
	for size := len(best) / 2; size >= 1; size /= 2 {
		for i := 0; i+size <= len(best)-1; {
			if shorter, d := differs(slices.Delete(copySteps(best), i, i+size)); shorter != nil {
				best, found = shorter, d
			} else {
				i += size
			}
		}
	}
	// Batches may do with fewer requests.
	for i := range best {
		for j := 0; i < len(best) && best[i].Batch && j < len(best[i].Asks); {
			fewer := copySteps(best)
			fewer[i].Asks = slices.Delete(fewer[i].Asks, j, j+1)
			if shorter, d := differs(fewer); shorter != nil {
				best, found = shorter, d
			} else {
				j++
			}
		}
	}
	return fmt.Sprintf("The shortest history found, with the Model's answers:\n%s\n%s", story.Format(best), found)
}

// copySteps is a copy whose requests may be removed.
func copySteps(steps []story.Step) []story.Step {
	c := slices.Clone(steps)
	for i := range c {
		c[i].Asks = slices.Clone(c[i].Asks)
	}
	return c
}

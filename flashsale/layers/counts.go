package layers

type counts struct{}

func newCounts() *counts { return &counts{} }

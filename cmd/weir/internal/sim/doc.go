// Package sim sends a shape of traffic through limits in virtual time: `weir sim`.
//
//	traffic, err := sim.NewTraffic(sim.Shape{Kind: sim.Flash, Rate: 20, Peak: 200, Span: time.Minute})
//	…
//	results, err := sim.Run(traffic, []string{"10/s burst 20", "10/s sliding_window"}, sim.Config{})
//
// All requests have one key. Each limit decides the whole traffic by its own state, in a
// memory store whose clock is the arrival of the request. Denied requests are not repeated.
package sim

// Package xds receives rate limits from a control plane, such as Envoy Gateway.
//
//	c, err := xds.New(xds.Config{Server: "localhost:18000", NodeID: "default", Apply: apply})
//	…
//	go c.Run(ctx)
//	<-c.First() // a configuration is in force
//
// It asks the aggregated discovery service, in the variant state of the world, for resources
// of the type ratelimit.config.ratelimit.v3.RateLimitConfig. Each response replaces all
// resources. One that cannot be applied is rejected with the error, and the last one stays in
// force.
package xds

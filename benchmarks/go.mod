module github.com/floodweir/weir/benchmarks

go 1.26.0

replace (
	github.com/floodweir/weir => ../
	github.com/floodweir/weir/contrib/goredis => ../contrib/goredis
	github.com/floodweir/weir/contrib/rueidis => ../contrib/rueidis
	github.com/floodweir/weir/e2e => ../e2e
)

require (
	github.com/floodweir/weir v0.0.0
	github.com/floodweir/weir/contrib/goredis v0.0.0
	github.com/floodweir/weir/contrib/rueidis v0.0.0
	github.com/floodweir/weir/e2e v0.0.0
	github.com/go-redis/redis_rate/v10 v10.0.1
	github.com/redis/go-redis/v9 v9.23.0
	github.com/sethvargo/go-limiter v0.7.1
	github.com/throttled/throttled/v2 v2.15.0
	golang.org/x/time v0.16.0
)

require (
	github.com/alibaba/sentinel-golang v1.0.4 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/failsafe-go/failsafe-go v0.9.8 // indirect
	github.com/hashicorp/golang-lru v0.5.4 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

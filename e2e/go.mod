module github.com/floodweir/weir/e2e

go 1.26.0

replace github.com/floodweir/weir => ../

replace github.com/floodweir/weir/contrib/rueidis => ../contrib/rueidis

replace github.com/floodweir/weir/contrib/goredis => ../contrib/goredis

require (
	github.com/floodweir/weir v0.0.0
	github.com/floodweir/weir/contrib/goredis v0.0.0
	github.com/floodweir/weir/contrib/rueidis v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)

module github.com/floodweir/weir/contrib/rueidis

go 1.26.0

require (
	github.com/floodweir/weir v0.0.0
	github.com/redis/rueidis v1.0.79
)

require (
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/floodweir/weir => ../../

module github.com/floodweir/weir/contrib/failsafe

go 1.26.0

require github.com/floodweir/weir v0.0.0

require (
	github.com/stretchr/testify v1.12.1 // indirect
	golang.org/x/net v0.61.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261019180522-ce908d29299b // indirect
	google.golang.org/grpc v1.85.0 // indirect
)

require (
	github.com/bits-and-blooms/bitset v1.24.6 // indirect
	github.com/failsafe-go/failsafe-go v0.9.8
)

replace github.com/floodweir/weir => ../../

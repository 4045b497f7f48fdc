module github.com/floodweir/weir/contrib/connect

go 1.26.0

require (
	connectrpc.com/connect v1.21.1
	github.com/floodweir/weir v0.0.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261019180522-ce908d29299b
)

require google.golang.org/protobuf v1.36.12

replace github.com/floodweir/weir => ../../

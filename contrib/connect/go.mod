module github.com/floodweir/weir/contrib/connect

go 1.26.0

require (
	connectrpc.com/connect v1.21.1
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261019180522-ce908d29299b
)

require google.golang.org/protobuf v1.36.12 // indirect

replace github.com/floodweir/weir => ../../

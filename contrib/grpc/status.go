package weirgrpc

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/floodweir/weir/rpclimit"
)

// HTTPStatus is the HTTP status that a code amounts to, as google.rpc.Code has it and
// gateways between gRPC and HTTP answer it. A code that nobody knows is 500.
func HTTPStatus(c codes.Code) int {
	return rpclimit.Code(c).HTTPStatus()
}

// codeOf is the code that a server answers for what a handler returned.
func codeOf(err error) codes.Code {
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return status.FromContextError(err).Code()
}

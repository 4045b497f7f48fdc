package weirgrpc

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/floodweir/weir/rpclimit"
)

// HTTPStatus returns the HTTP status of a code, as google.rpc.Code defines it. An unknown
// code is 500.
func HTTPStatus(c codes.Code) int {
	return rpclimit.Code(c).HTTPStatus()
}

// codeOf returns the code of an error that a handler returned.
func codeOf(err error) codes.Code {
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return status.FromContextError(err).Code()
}

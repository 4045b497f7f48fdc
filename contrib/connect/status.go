package weirconnect

import (
	"net/http"

	"connectrpc.com/connect"
)

// HTTPStatus is the HTTP status that a code amounts to, as google.rpc.Code has it and
// gateways between RPC and HTTP answer it; of no code it is 200. It differs in places
// from what the Connect protocol sends. A code that nobody knows is 500.
func HTTPStatus(c connect.Code) int {
	switch c {
	case 0:
		return http.StatusOK
	case connect.CodeCanceled:
		return 499 // as nginx says that the client closed the request
	case connect.CodeInvalidArgument, connect.CodeFailedPrecondition, connect.CodeOutOfRange:
		return http.StatusBadRequest
	case connect.CodeUnauthenticated:
		return http.StatusUnauthorized
	case connect.CodePermissionDenied:
		return http.StatusForbidden
	case connect.CodeNotFound:
		return http.StatusNotFound
	case connect.CodeAlreadyExists, connect.CodeAborted:
		return http.StatusConflict
	case connect.CodeResourceExhausted:
		return http.StatusTooManyRequests
	case connect.CodeUnimplemented:
		return http.StatusNotImplemented
	case connect.CodeUnavailable:
		return http.StatusServiceUnavailable
	case connect.CodeDeadlineExceeded:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

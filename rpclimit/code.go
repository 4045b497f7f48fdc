package rpclimit

import "net/http"

// A Code is how a call ends, numbered as gRPC, Connect and google.rpc.Code do.
type Code uint32

// The codes; OK is that of a call that ends well.
const (
	OK Code = iota
	Canceled
	Unknown
	InvalidArgument
	DeadlineExceeded
	NotFound
	AlreadyExists
	PermissionDenied
	ResourceExhausted
	FailedPrecondition
	Aborted
	OutOfRange
	Unimplemented
	Internal
	Unavailable
	DataLoss
	Unauthenticated
)

// HTTPStatus is the HTTP status that a code amounts to, as google.rpc.Code has it and
// gateways between RPC and HTTP answer it. A code that nobody knows is 500.
func (c Code) HTTPStatus() int {
	switch c {
	case OK:
		return http.StatusOK
	case Canceled:
		return 499 // as nginx says that the client closed the request
	case InvalidArgument, FailedPrecondition, OutOfRange:
		return http.StatusBadRequest
	case Unauthenticated:
		return http.StatusUnauthorized
	case PermissionDenied:
		return http.StatusForbidden
	case NotFound:
		return http.StatusNotFound
	case AlreadyExists, Aborted:
		return http.StatusConflict
	case ResourceExhausted:
		return http.StatusTooManyRequests
	case Unimplemented:
		return http.StatusNotImplemented
	case Unavailable:
		return http.StatusServiceUnavailable
	case DeadlineExceeded:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

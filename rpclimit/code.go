package rpclimit

import "net/http"

// A Code is the status code of a call, with the numbers of gRPC, Connect and google.rpc.Code.
type Code uint32

// The codes; OK means success.
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

// HTTPStatus returns the HTTP status that corresponds to a code, as google.rpc.Code defines it
// and gateways between RPC and HTTP use it. An unknown code is 500.
func (c Code) HTTPStatus() int {
	switch c {
	case OK:
		return http.StatusOK
	case Canceled:
		return 499 // as nginx logs a request that its client canceled
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

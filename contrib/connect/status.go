package weirconnect

import (
	"connectrpc.com/connect"

	"github.com/floodweir/weir/rpclimit"
)

// HTTPStatus returns the HTTP status of a code, as google.rpc.Code defines it. Code 0 is
// 200, an unknown code is 500. The Connect protocol itself sends other statuses for some
// codes.
func HTTPStatus(c connect.Code) int {
	return rpclimit.Code(c).HTTPStatus()
}

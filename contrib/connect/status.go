package weirconnect

import (
	"connectrpc.com/connect"

	"github.com/floodweir/weir/rpclimit"
)

// HTTPStatus is the HTTP status that a code amounts to, as google.rpc.Code has it and
// gateways between RPC and HTTP answer it; of no code it is 200. It differs in places
// from what the Connect protocol sends. A code that nobody knows is 500.
func HTTPStatus(c connect.Code) int {
	return rpclimit.Code(c).HTTPStatus()
}

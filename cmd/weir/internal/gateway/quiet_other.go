//go:build !unix

package gateway

import "net"

// canSendDirectly is false, because isQuiet requires a read that does not block.
const canSendDirectly = false

func isQuiet(net.Conn) bool { return false }

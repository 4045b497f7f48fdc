package load

import (
	"bytes"

	"github.com/floodweir/weir/flashsale/verify/load/scan"
)

// A response holds the fields that the load generator reads from a body. Its texts are slices of
// the body.
type response struct {
	state, place, token, until []byte
	receipt, at, user          []byte
	held, heldAt               []byte // the receipt of the first unit that a ticket's user holds, and its time
	reason, layer              []byte
	phase                      []byte // of the view
	challenge                  []byte // of a refusal: the proof-of-work challenge
	bits                       int64
	poll, retry                int64 // milliseconds
	ahead, left                int64
	complete                   bool // whether the body is a complete JSON object
}

// read reads a body, which may be invalid.
func (a *response) read(body []byte) {
	*a = response{}
	a.complete = scan.Object(body, func(key, value []byte) {
		switch string(key) {
		case "state":
			a.state = scan.Text(value)
		case "place":
			a.place = scan.Text(value)
		case "token":
			a.token = scan.Text(value)
		case "until":
			a.until = scan.Text(value)
		case "receipt":
			a.receipt = scan.Text(value)
		case "at":
			a.at = scan.Text(value)
		case "user":
			a.user = scan.Text(value)
		case "reason":
			a.reason = scan.Text(value)
		case "layer":
			a.layer = scan.Text(value)
		case "challenge":
			a.challenge = scan.Text(value)
		case "phase":
			a.phase = scan.Text(value)
		case "held":
			scan.Object(bytes.TrimPrefix(value, []byte("[")), func(key, value []byte) {
				switch string(key) {
				case "receipt":
					a.held = scan.Text(value)
				case "at":
					a.heldAt = scan.Text(value)
				}
			})
		case "poll_after_ms":
			a.poll = scan.Number(value)
		case "retry_after_ms":
			a.retry = scan.Number(value)
		case "bits":
			a.bits = scan.Number(value)
		case "ahead":
			a.ahead = scan.Number(value)
		case "left":
			a.left = scan.Number(value)
		case "view":
			scan.Object(value, func(key, value []byte) {
				if string(key) == "phase" {
					a.phase = scan.Text(value)
				}
			})
		}
	})
}

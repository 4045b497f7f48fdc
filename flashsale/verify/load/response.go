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
	names := [...]string{"state", "place", "token", "until", "receipt", "at", "user", "reason", "layer", "challenge", "phase"}
	texts := [...]*[]byte{&a.state, &a.place, &a.token, &a.until, &a.receipt, &a.at, &a.user, &a.reason, &a.layer, &a.challenge, &a.phase}
	a.complete = scan.Object(body, func(key, value []byte) {
		for i, name := range names {
			if string(key) == name {
				*texts[i] = scan.Text(value)
				return
			}
		}
		switch string(key) {
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

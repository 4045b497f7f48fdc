package audit

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// An Entry is one entry of the audit log.
type Entry struct {
	// ID is the number of the entry, and At its time by the clock of the store. Append sets
	// both.
	ID int64     `json:"id"`
	At time.Time `json:"at"`

	Actor string `json:"actor"` // the name of the token, or the user of a command
	Via   string `json:"via"`   // web, http or cli

	// Action names the operation: credit, reset, raise, freeze, block, lift, apply, rollback,
	// sign_in or sign_out.
	Action string `json:"action"`

	// Policy and Key name what was changed. Key has the parts of a key, and KeyID is its
	// policy.KeyID, which is replaced in Log.Shown.
	Policy string   `json:"policy,omitempty"`
	Key    []string `json:"key,omitempty"`
	KeyID  string   `json:"key_id,omitempty"`

	Reason string `json:"reason,omitempty"`
	From   string `json:"from,omitempty"` // before the action
	To     string `json:"to,omitempty"`   // after it

	// OK is the result; nil if it is unknown. Error is the reason of a failure.
	OK    *bool  `json:"ok"`
	Error string `json:"error,omitempty"`
}

// Yes returns the OK of an action that succeeded.
func Yes() *bool { ok := true; return &ok }

// No returns the OK of an action that failed.
func No() *bool { return new(bool) }

// MarshalJSON implements [json.Marshaler].
func (e Entry) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		plain
		At string `json:"at"`
	}{plain(e), e.At.UTC().Format("2006-01-02T15:04:05.000Z07:00")})
}

// Limits on an entry, in bytes. A longer text is shortened.
const (
	maxText  = 1024 // of a field
	maxParts = 32   // of Key
)

// shortened returns e with valid UTF-8 texts of at most maxText bytes.
func (e Entry) shortened() Entry {
	for _, text := range []*string{&e.Actor, &e.Via, &e.Action, &e.Policy, &e.KeyID, &e.Reason, &e.From, &e.To, &e.Error} {
		*text = shorten(*text)
	}
	key := e.Key[:min(len(e.Key), maxParts)]
	e.Key = nil
	for _, part := range key {
		e.Key = append(e.Key, shorten(part))
	}
	return e
}

func shorten(s string) string {
	if len(s) > maxText {
		return strings.ToValidUTF8(s[:maxText-len("…")], "") + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

type plain Entry // without methods

// A stored is an Entry in Redis, with its time in ms since 1970.
type stored struct {
	plain
	ID int64 `json:"id,omitempty"`
	At int64 `json:"at,omitempty"`
}

// Encode returns e for Redis. Without ID and At, it is an argument of [Script].
func (e Entry) Encode() string {
	s := stored{plain: plain(e.shortened()), ID: e.ID}
	if !e.At.IsZero() {
		s.At = e.At.UnixMilli()
	}
	text, err := json.Marshal(s)
	if err != nil { // impossible for strings, numbers and a bool
		panic(err)
	}
	return string(text)
}

// decode reads an entry of Redis.
func decode(text string) (Entry, error) {
	var s stored
	if err := json.Unmarshal([]byte(text), &s); err != nil || s.ID < 1 {
		return Entry{}, fmt.Errorf("audit: entry in %s: want JSON with an id, got %.40q", Key, text)
	}
	e := Entry(s.plain)
	e.ID, e.At = s.ID, time.UnixMilli(s.At).UTC()
	return e, nil
}

package decisionlog

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// hash returns 64 bits of the HMAC of a key, which do not reveal the key.
func (l *Log) hash(key string) string {
	h := hmac.New(sha256.New, l.c.Salt)
	h.Write([]byte(key))
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// maxText is the maximum length of a text in a line, in bytes.
const maxText = 256

// cut shortens a text of a client to maxText.
func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}

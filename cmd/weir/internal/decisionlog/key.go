package decisionlog

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// hash is a name for a key that does not tell the key: 64 bits of its HMAC.
func (l *Log) hash(key string) string {
	h := hmac.New(sha256.New, l.c.Salt)
	h.Write([]byte(key))
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// maxText is how much of a text is told, in bytes.
const maxText = 256

// cut is a text that others chose, up to the length that a line has room for.
func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}

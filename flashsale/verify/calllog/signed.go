package calllog

import (
	"encoding/base64"
	"encoding/binary"
)

// Tickets, tokens and receipts are base64url of the version byte 1, fields, and a signature of
// 32 bytes. A field is a length byte and that many bytes, or an integer of eight bytes.

// fields reads the first fields of a signed text without checking the signature. Each letter of
// kinds is t for a text or n for an integer.
func fields(signed, kinds string) (texts []string, numbers []int64, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(signed)
	if err != nil || len(b) < 1+32 || b[0] != 1 {
		return nil, nil, false
	}
	b = b[1 : len(b)-32]
	for _, k := range kinds {
		n := 8
		if k == 't' {
			if len(b) == 0 {
				return nil, nil, false
			}
			n, b = int(b[0]), b[1:]
		}
		if len(b) < n {
			return nil, nil, false
		}
		if k == 't' {
			texts = append(texts, string(b[:n]))
		} else {
			numbers = append(numbers, int64(binary.BigEndian.Uint64(b)))
		}
		b = b[n:]
	}
	return texts, numbers, true
}

// ReservationOf returns the reservation of a receipt: its first field.
func ReservationOf(receipt string) string {
	texts, _, ok := fields(receipt, "t")
	if !ok {
		return ""
	}
	return texts[0]
}

// RankOf returns the rank of a ticket, which follows its sale, epoch, user and ID. It returns 0
// for any other text.
func RankOf(place string) int64 {
	_, numbers, ok := fields(place, "tnttn")
	if !ok {
		return 0
	}
	return numbers[1]
}

// EpochOf returns the epoch of an admission token, which follows its sale and precedes its user,
// ticket, batch and expiry. It returns 0 for any other text.
func EpochOf(token string) int64 {
	_, numbers, ok := fields(token, "tntttn")
	if !ok {
		return 0
	}
	return numbers[0]
}

package auditor

import (
	"encoding/base64"
	"encoding/binary"
)

// What buyers carry is signed, not secret: base64url of a version 1, fields, and a signature
// of 32 bytes. A field is a byte of length and so many bytes, or eight bytes of an integer.

// fields reads the first fields of a signed text, whose kinds are t for text and n for an
// integer. It does not look at the signature.
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

// reservationOf is the reservation that a receipt names: its first field.
func reservationOf(receipt string) string {
	texts, _, ok := fields(receipt, "t")
	if !ok {
		return ""
	}
	return texts[0]
}

// RankOf is the rank of a ticket, as it stands in the place that a buyer was given: behind
// its sale, epoch, user and ID. It is 0 of what is no such text.
func RankOf(place string) int64 {
	_, numbers, ok := fields(place, "tnttn")
	if !ok {
		return 0
	}
	return numbers[1]
}

// EpochOf is the epoch of an admission token that a buyer was given: behind its sale, and
// before its user, ticket, batch and end. It is 0 of what is no such text.
func EpochOf(token string) int64 {
	_, numbers, ok := fields(token, "tntttn")
	if !ok {
		return 0
	}
	return numbers[0]
}

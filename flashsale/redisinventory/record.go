package redisinventory

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

const wordChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

const digits = "0123456789ABCDEF"

// special reports whether a byte would end a field of a record or the hash tag of a key.
func special(c byte) bool { return c <= ' ' || c == 0x7f || c == '%' || c == '{' || c == '}' }

// escape encodes s as a field without spaces, control characters and braces.
func escape(s string) string {
	plain := true
	for i := range len(s) {
		if special(s[i]) {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; special(c) {
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// unescape decodes a field of escape.
func unescape(s string) (string, error) {
	if strings.IndexByte(s, '%') < 0 {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", fmt.Errorf("%q ends within an escape", s)
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", fmt.Errorf("%q has an escape that is not two hexadecimal digits", s)
		}
		b.WriteByte(byte(c))
		i += 2
	}
	return b.String(), nil
}

// record encodes a reservation as it is stored under its ID: "held slot at payby epoch user
// ticket key". The slot of several units is "slot/quantity".
func record(r *sale.Reservation) string {
	slot := strconv.Itoa(r.Slot)
	if r.Units() > 1 {
		slot = fmt.Sprintf("%d/%d", r.Slot, r.Quantity)
	}
	return fmt.Sprintf("h %s %d %d %d %s %s %s",
		slot, r.At.UnixMilli(), r.PayBy.UnixMilli(), r.Epoch, escape(r.User), r.Ticket, escape(r.Key))
}

// maxRecord bounds the length of a record that is parsed. It is above the longest record that
// is written.
const maxRecord = 1024

// parse decodes a record.
func parse(id, saleID, text string) (r sale.Reservation, err error) {
	if len(text) > maxRecord {
		return r, fmt.Errorf("a record of %d bytes, want at most %d", len(text), maxRecord)
	}
	fields := strings.Split(text, " ")
	if len(fields) != 8 || fields[0] != "h" && fields[0] != "r" {
		return r, fmt.Errorf("the record %.100q, want \"held slot at payby epoch user ticket key\"", text)
	}
	quantity := "1"
	if slot, many, ok := strings.Cut(fields[1], "/"); ok {
		fields[1], quantity = slot, many
	}
	units, err := strconv.Atoi(quantity)
	if err != nil || units < 1 || units > sale.MaxQuantity {
		return r, fmt.Errorf("the quantity %.100q, want 1 to %d", quantity, sale.MaxQuantity)
	}
	var n [4]int64
	for i := range n {
		if n[i], err = strconv.ParseInt(fields[1+i], 10, 64); err != nil || n[i] < 0 || n[i] > 1<<53 {
			return r, fmt.Errorf("the record %.100q, whose field %d is no number from 0 to 2^53", text, 2+i)
		}
	}
	user, err := unescape(fields[5])
	if err != nil {
		return r, err
	}
	key, err := unescape(fields[7])
	if err != nil {
		return r, err
	}
	switch {
	case !sale.IsID(id):
		return r, fmt.Errorf("the reservation %.100q, want 16 to 64 letters, digits, -", id)
	case !sale.IsID(fields[6]):
		return r, fmt.Errorf("the ticket %.100q, want 16 to 64 letters, digits, -", fields[6])
	case user == "" || len(user) > 128:
		return r, fmt.Errorf("the user %.100q, want 1 to 128 bytes", user)
	case len(key) > 64:
		return r, fmt.Errorf("the key %.100q, want at most 64 bytes", key)
	case n[0] < 1 || n[0] > 1<<30:
		return r, fmt.Errorf("the slot %d, want 1 or more", n[0])
	}
	return sale.Reservation{
		ID: id, Sale: saleID, Epoch: n[3], User: user, Slot: int(n[0]), Ticket: fields[6], Key: key,
		At: instant(n[1]), PayBy: instant(n[2]), Quantity: units,
	}, nil
}

// entry decodes an entry of the stream: "ID record".
func entry(id string, deliveries int, saleID, kind, text string) sale.Entry {
	e := sale.Entry{ID: id, Deliveries: deliveries}
	if kind != "r" {
		e.Corrupt = fmt.Sprintf("fields %.100q, want the one field r", text)
		return e
	}
	res, rec, _ := strings.Cut(text, " ")
	r, err := parse(res, saleID, rec)
	if err != nil {
		e.Corrupt = err.Error()
		return e
	}
	e.Reservation = r
	return e
}

func instant(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

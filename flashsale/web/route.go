package web

import (
	"net/http"
	"net/url"
	"strings"
)

// A place is what a path of the shop's interface names.
type place uint8

const (
	nowhere place = iota
	page
	atSession
	atTime
	atSales
	atSale
	atTicket
	atBuy
	atOrders
	atOrder
	atCancel
	atPay
	atContact
	atCallback
)

// canonical reports whether u's path is spelled in the one way that is answered.
func canonical(u *url.URL) bool {
	p := u.Path
	if u.RawPath != "" || p == "" || p[0] != '/' || strings.Contains(p, "//") {
		return false
	}
	for part := range strings.SplitSeq(p[1:], "/") {
		if part == "." || part == ".." {
			return false
		}
	}
	return !strings.ContainsAny(p, ";\\\x00")
}

// whereTo says which place of the shop u names, and the ID within it.
func whereTo(u *url.URL) (at place, id string) {
	if !canonical(u) {
		return nowhere, ""
	}
	rest, api := strings.CutPrefix(u.Path, "/api/")
	if !api {
		if u.Path == "/api" {
			return nowhere, ""
		}
		return page, ""
	}
	head, tail, more := strings.Cut(rest, "/")
	switch {
	case rest == "session":
		return atSession, ""
	case rest == "time":
		return atTime, ""
	case rest == "sales":
		return atSales, ""
	case rest == "orders":
		return atOrders, ""
	case rest == "payments/callback":
		return atCallback, ""
	case !more:
		return nowhere, ""
	}
	id, act, more := strings.Cut(tail, "/")
	switch {
	case head == "sales" && isSale(id):
		switch {
		case !more:
			return atSale, id
		case act == "ticket":
			return atTicket, id
		case act == "orders":
			return atBuy, id
		}
	case head == "orders" && isReceipt(id):
		switch {
		case !more:
			return atOrder, id
		case act == "cancel":
			return atCancel, id
		case act == "pay":
			return atPay, id
		case act == "contact":
			return atContact, id
		}
	}
	return nowhere, ""
}

// allowed are the methods of a place, for the field Allow.
func (p place) allowed() string {
	switch p {
	case atTicket:
		return "GET, HEAD, POST"
	case atSession, atBuy, atCancel, atPay, atCallback:
		return "POST"
	case atContact:
		return "PUT"
	}
	return "GET, HEAD"
}

// allows reports whether a place has the method.
func (p place) allows(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead:
		return p == atTicket || p.allowed() == "GET, HEAD"
	case http.MethodPost:
		return p == atTicket || p.allowed() == "POST"
	case http.MethodPut:
		return p == atContact
	}
	return false
}

// isSale reports whether id can be that of a sale: 1 to 64 lower-case letters and digits.
func isSale(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// isReceipt reports whether id can be a signed receipt.
func isReceipt(id string) bool { return id != "" && len(id) <= maxSigned && isBase64(id) }

// isBase64 reports whether s has the letters of base64url alone.
func isBase64(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

package web

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/floodweir/weir/flashsale/wire"
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
	atWork
	atBuy
	atOrders
	atOrder
	atCancel
	atPay
	atContact
	atCallback
)

// whereTo says which place of the shop u names, and the ID within it.
func whereTo(u *url.URL) (at place, id string) {
	if !wire.IsCanonicalPath(u) {
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
	case head == "sales" && wire.IsSaleID(id):
		switch {
		case !more:
			return atSale, id
		case act == "ticket":
			return atTicket, id
		case act == "work":
			return atWork, id
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

// isReceipt reports whether id can be a signed receipt.
func isReceipt(id string) bool { return id != "" && len(id) <= wire.MaxSigned && wire.IsBase64(id) }

// isPayment reports whether s can be a payment's ID.
func isPayment(s string) bool {
	return s != "" && len(s) <= 64 && wire.IsBase64(s) && !strings.Contains(s, "_")
}

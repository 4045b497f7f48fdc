package office

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

func (o *Office) mine(v *visit) {
	after := v.r.URL.Query().Get("after")
	if after != "" && !wire.IsSaleID(after) {
		(&wire.RequestError{Field: "after", Detail: fmt.Sprintf("after: got %.70q, want the ID of a sale", after)}).Refuse(v.w)
		return
	}
	sales, err := o.c.Service.Sales(v.r.Context(), v.merchant, after)
	all := make([]saleJSON, 0, len(sales))
	for i := range sales {
		all = append(all, saleOf(&sales[i]))
	}
	o.send(v, http.StatusOK, map[string]any{"sales": all}, err)
}

func (o *Office) create(v *visit) {
	d, _, f := readDraft(v.body, false)
	key := ""
	if f == nil {
		key, f = wire.IdempotencyKey(v.r.Header)
	}
	if f != nil {
		f.Refuse(v.w)
		return
	}
	s, err := o.c.Service.Create(v.r.Context(), v.merchant, key, d)
	o.sendSale(v, http.StatusCreated, s, err)
}

func (o *Office) get(v *visit) {
	s, err := o.c.Service.Sale(v.r.Context(), v.merchant, v.sale)
	o.sendSale(v, http.StatusOK, s, err)
}

func (o *Office) edit(v *visit) {
	d, version, f := readDraft(v.body, true)
	if f != nil {
		f.Refuse(v.w)
		return
	}
	s, err := o.c.Service.Edit(v.r.Context(), v.merchant, v.sale, version, d)
	o.sendSale(v, http.StatusOK, s, err)
}

// copySale creates a draft from a sale, once for each key.
func copySale(o *Office, v *visit) {
	if !v.emptyBody() {
		return
	}
	key, ok := v.key("makes no second copy")
	if !ok {
		return
	}
	s, err := o.c.Service.Copy(v.r.Context(), v.merchant, v.sale, key)
	o.sendSale(v, http.StatusCreated, s, err)
}

func (o *Office) check(v *visit) {
	if !v.emptyBody() {
		return
	}
	faults, err := o.c.Service.Check(v.r.Context(), v.merchant, v.sale)
	if faults == nil {
		faults = []string{}
	}
	o.send(v, http.StatusOK, map[string]any{"faults": faults}, err)
}

// change returns the handler of a request that changes the state of a sale and has no body.
func (o *Office) change(f func(ctx context.Context, merchant, id string) (sale.Sale, error)) func(*visit) {
	return func(v *visit) {
		if !v.emptyBody() {
			return
		}
		s, err := f(v.r.Context(), v.merchant, v.sale)
		o.sendSale(v, http.StatusOK, s, err)
	}
}

func (o *Office) end(kill bool) func(ctx context.Context, merchant, id string) (sale.Sale, error) {
	return func(ctx context.Context, merchant, id string) (sale.Sale, error) {
		return o.c.Service.End(ctx, merchant, id, kill)
	}
}

func (o *Office) stock(v *visit) {
	var units int64
	if !v.decode(wire.Member{Name: "units", Num: &units, Min: 1, Max: sale.MaxStock}) {
		return
	}
	key, ok := v.key("adds nothing")
	if !ok {
		return
	}
	s, err := o.c.Service.AddStock(v.r.Context(), v.merchant, v.sale, key, units)
	o.sendSale(v, http.StatusOK, s, err)
}

func (o *Office) board(v *visit) {
	var from int64
	if text := v.r.URL.Query().Get("from"); text != "" {
		var err error
		if from, err = strconv.ParseInt(text, 10, 64); err != nil || from < 0 {
			(&wire.RequestError{Field: "from", Detail: fmt.Sprintf("from: got %.70q, want a time in milliseconds since 1970", text)}).Refuse(v.w)
			return
		}
	}
	b, err := o.c.Service.Dashboard(v.r.Context(), v.merchant, v.sale)
	if b.Layers == nil {
		b.Layers = o.c.Layers.Counts()
	}
	o.send(v, http.StatusOK, boardOf(&b, from), err)
}

func (o *Office) orders(v *visit) {
	after := v.r.URL.Query().Get("after")
	if len(after) > sale.MaxKey || !wire.IsBase64(after) {
		(&wire.RequestError{Field: "after", Detail: fmt.Sprintf("after: got %.70q, want a reservation", after)}).Refuse(v.w)
		return
	}
	orders, err := o.c.Service.RecentOrders(v.r.Context(), v.merchant, v.sale, after)
	all := make([]orderJSON, 0, len(orders))
	for i := range orders {
		all = append(all, orderOf(v, &orders[i]))
	}
	o.send(v, http.StatusOK, map[string]any{"orders": all}, err)
}

// cancelOrder cancels a pending order, with a reason.
func cancelOrder(o *Office, v *visit) { endOrder(o, v, o.c.Service.CancelOrder) }

// refundOrder refunds a paid order, with a reason.
func refundOrder(o *Office, v *visit) { endOrder(o, v, o.c.Service.RefundOrder) }

// endOrder calls f with the reason of a request.
func endOrder(o *Office, v *visit, f func(ctx context.Context, merchant, id, reservation, reason string) (sale.Order, error)) {
	var reason string
	if !v.decode(wire.Member{Name: "reason", Text: &reason, Min: 1, Max: 128}) {
		return
	}
	order, err := f(v.r.Context(), v.merchant, v.sale, v.r.PathValue("reservation"), reason)
	o.send(v, http.StatusOK, orderOf(v, &order), err)
}

func (o *Office) networks(v *visit) {
	networks, err := o.c.Service.SharedNetworks(v.r.Context(), v.merchant, v.sale)
	all := make([]networkJSON, 0, len(networks))
	for _, n := range networks {
		all = append(all, networkJSON(n))
	}
	o.send(v, http.StatusOK, map[string]any{"networks": all}, err)
}

func (o *Office) reconcile(v *visit) {
	if !v.emptyBody() {
		return
	}
	r, err := o.c.Service.Reconcile(v.r.Context(), v.merchant, v.sale)
	o.send(v, http.StatusOK, reconciledJSON(r), err)
}

func (o *Office) logged(v *visit) {
	lines, err := o.c.Service.AuditLog(v.r.Context(), v.merchant, v.sale)
	all := make([]loggedJSON, 0, len(lines))
	for _, l := range lines {
		all = append(all, loggedJSON{moment(l.At), l.Actor, l.Sale, l.Event})
	}
	o.send(v, http.StatusOK, map[string]any{"log": all}, err)
}

// decode reads the body into members, and refuses it if it is not accepted.
func (v *visit) decode(members ...wire.Member) bool {
	f := wire.Decode(v.body, members)
	if f != nil {
		f.Refuse(v.w)
	}
	return f == nil
}

// emptyBody reports whether the body has no member, and refuses if it has.
func (v *visit) emptyBody() bool { return v.decode() }

// key returns the Idempotency-Key of a request that needs one, and refuses without. why says what
// it prevents.
func (v *visit) key(why string) (key string, ok bool) {
	key, f := wire.IdempotencyKey(v.r.Header)
	if f == nil && key == "" {
		f = &wire.RequestError{Field: "Idempotency-Key", Detail: "Idempotency-Key: got none, want one, so that a retry " + why}
	}
	if f != nil {
		f.Refuse(v.w)
	}
	return key, f == nil
}

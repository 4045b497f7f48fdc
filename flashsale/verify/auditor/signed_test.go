package auditor_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/auditor"
	"github.com/floodweir/weir/flashsale/verify/calllog"
)

// TestReadsReceipts audits with receipts and tickets that the shop signed.
func TestReadsReceipts(t *testing.T) {
	keys, err := pass.NewKeys(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	w := newFixture(t)
	for i := range w.facts.Observations {
		o := &w.facts.Observations[i]
		if o.Receipt != "" {
			o.Receipt = keys.Receipt(sale.Reservation{ID: o.Receipt, Sale: o.Sale, Epoch: 1, User: o.User, Slot: 1, Ticket: "ticket", At: w.start, PayBy: w.start})
		}
		if o.Rank != 0 {
			o.Ticket, o.Rank = keys.Ticket(pass.Ticket{Sale: o.Sale, Epoch: 1, User: o.User, Ticket: "ticket", Rank: o.Rank}), 0
		}
	}
	if r := w.audit(); r.Violations() != 0 || r.Findings[auditor.PayOrTimeout].Checks == 0 {
		t.Errorf("%d violations: %+v", r.Violations(), r.Findings)
	}
	token := keys.Token(pass.Token{Sale: "s1", Epoch: 7, User: "u3", Ticket: "ticket", Batch: "batch", Until: time.Now()})
	if got := calllog.EpochOf(token); got != 7 {
		t.Errorf("EpochOf of a token = %d, want 7", got)
	}
	o := w.of("u3", calllog.Buy)
	o.Receipt = keys.Receipt(sale.Reservation{ID: "r77", Sale: "s1", Epoch: 1, User: "u3", Slot: 1, Ticket: "ticket", At: w.start, PayBy: w.start})
	if f := w.audit().Findings[auditor.OneOrder]; f.Violations == 0 {
		t.Error("a receipt without an order: no violation")
	}
}

package ledger

import (
	"context"

	"github.com/floodweir/weir/flashsale/ledger/internal/coalesce"
	"github.com/floodweir/weir/flashsale/ledger/internal/database"
)

// outcome is the result of a request, valid once the transaction is committed.
type outcome[B any] struct {
	result B
	err    error
}

// applyBatch applies a batch in a transaction and sets the result of every request. apply
// returns the outcome of each, and whether any has changed the database; if so, applyBatch calls
// committed after the transaction.
//
// If the database rejects the batch, each request has a transaction of its own: the error does
// not name the request.
func applyBatch[A, B any](db *database.DB, batch []*coalesce.Request[A, B], committed func(),
	apply func(*database.Tx, []*coalesce.Request[A, B]) ([]outcome[B], bool, error)) {
	var all []outcome[B]
	fresh := false
	err := db.Do(context.Background(), database.WriteKeyed, func(x *database.Tx) (err error) {
		all, fresh, err = apply(x, batch)
		return err
	})
	switch {
	case err != nil && len(batch) > 1 && database.IsRejected(err):
		for i := range batch {
			applyBatch(db, batch[i:i+1], committed, apply)
		}
		return
	case err != nil:
		for _, q := range batch {
			q.Result, q.Err = *new(B), err
		}
		return
	case fresh:
		committed()
	}
	for i, q := range batch {
		q.Result, q.Err = all[i].result, all[i].err
	}
}

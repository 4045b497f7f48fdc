package office

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

// sendFor is the maximum duration of sending one part of an export.
const sendFor = time.Minute

// report sends the orders as CSV.
func (o *Office) report(v *visit) {
	w := &exportWriter{v: v, kind: "text/csv; charset=utf-8", ending: ".csv"}
	w.finish(o, o.c.Service.Report(v.r.Context(), v.merchant, v.sale, v.contacts(), w))
}

// exportedJSON is a line of an export.
type exportedJSON struct {
	orderJSON
	Currency string `json:"currency"`
	Placed   string `json:"placed"`
	Returned int64  `json:"money_returned"`
}

// endJSON is the last line of an export. An export without it is not complete.
type endJSON struct {
	End struct {
		Orders   int64  `json:"orders"`
		Complete bool   `json:"complete"`
		Error    string `json:"error,omitempty"`
	} `json:"end"`
}

// exportOrders sends the orders as JSON lines. It keeps one page of orders in memory. The last line
// is an endJSON.
func exportOrders(o *Office, v *visit) {
	w := &exportWriter{v: v, kind: "application/jsonl; charset=utf-8", ending: ".jsonl"}
	row, err := o.c.Service.Sale(v.r.Context(), v.merchant, v.sale)
	if err != nil {
		w.finish(o, err)
		return
	}
	out := bufio.NewWriterSize(w, 32<<10)
	lines := json.NewEncoder(out)
	var end endJSON
	err = o.c.Service.EachOrder(v.r.Context(), v.merchant, v.sale, func(order sale.Order) error {
		end.End.Orders++
		return lines.Encode(exportedJSON{orderOf(v, &order), row.Currency, moment(order.CreatedAt), order.Returned})
	})
	if err == nil {
		end.End.Complete = true
		if err = lines.Encode(end); err == nil {
			err = out.Flush()
		}
	} else if w.begun {
		f, _ := wire.Failure(err)
		end.End.Error = string(f.Reason)
		_ = lines.Encode(end)
		_ = out.Flush()
	}
	w.finish(o, err)
}

// exportWriter writes the header of an export with its first byte.
type exportWriter struct {
	v            *visit
	kind, ending string // of the content, and of the file's name
	begun        bool
}

func (w *exportWriter) begin() {
	if w.begun {
		return
	}
	w.begun = true
	h := w.v.w.Header()
	h.Set("Content-Type", w.kind)
	h.Set("Content-Disposition", `attachment; filename="`+w.v.sale+w.ending+`"`)
	w.v.w.WriteHeader(http.StatusOK)
}

// Write implements io.Writer. A client that reads nothing for sendFor loses the connection.
func (w *exportWriter) Write(b []byte) (int, error) {
	w.begin()
	_ = http.NewResponseController(w.v.w).SetWriteDeadline(time.Now().Add(sendFor)) // test recorders have no deadline
	n, err := w.v.w.Write(b)
	if err != nil {
		return n, fmt.Errorf("office: export: %w", err)
	}
	return n, nil
}

// finish ends an export. An error after the first byte aborts the connection, after what was
// written, so that the client sees that the export is incomplete.
func (w *exportWriter) finish(o *Office, err error) {
	switch {
	case err == nil:
		w.begin()
	case !w.begun:
		o.fail(w.v.w, w.v.r, err)
	default:
		o.c.Log.Error("export aborted", "sale", w.v.sale, "file", w.ending, "error", err)
		_ = http.NewResponseController(w.v.w).Flush()
		panic(http.ErrAbortHandler)
	}
}

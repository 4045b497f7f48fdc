// Package table reads overrides of a policy from CSV: a column for each part of the key, and one
// for the limits.
package table

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy"
)

// MaxSize is the maximum size of a table, in bytes.
const MaxSize = 16 << 20

// MaxRows is the number of overrides after which a table is not read further: one more than a
// policy accepts.
const MaxRows = 100_001

// A Table has the overrides of a file.
type Table struct {
	Overrides []policy.Override
	Lines     []int32 // of each of Overrides
}

// A Reader reads a table.
type Reader struct {
	// Key has the parts of the key.
	Key []policy.KeyPart

	// Limit parses a limit, or returns the accepted values.
	Limit func(text string) (l weir.Limit, want string)

	// Fail reports an error. The field is that of an override, such as "[2].limits", or "". If
	// Fail returns false, reading ends.
	Fail func(line, column int, field, value, want string) (more bool)
}

// An allowance holds the limits of a cell.
type allowance struct {
	limits           []weir.Limit
	block, unlimited bool
	want             string // accepted values, if the cell is invalid
}

// Read reads data. Overrides with the same cell of limits share a slice of them.
func (r *Reader) Read(data []byte) (t Table) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	switch {
	case len(data) > MaxSize:
		r.Fail(1, 1, "", fmt.Sprintf("more than %d bytes", MaxSize), fmt.Sprintf("want a file of at most %d bytes", MaxSize))
		return t
	case !utf8.Valid(data):
		r.Fail(1, 1, "", "", "want text in UTF-8")
		return t
	}
	rows := csv.NewReader(bytes.NewReader(data))
	rows.ReuseRecord = true
	if header, err := rows.Read(); err != nil || !r.isHeader(header) {
		r.Fail(1, 1, "", fault.Quote(strings.Join(header, ",")), "want the columns "+strings.Join(r.columns(), ",")+" in the first line")
		return t
	}
	parts := len(r.Key)
	known := map[string]*allowance{} // most overrides have one of a few limits
	var keys []string                // of many overrides, in one allocation
	for more := true; more && len(t.Overrides) < MaxRows; {
		row, err := rows.Read()
		if err != nil {
			r.end(err)
			return t
		}
		if len(t.Overrides)%100 == 99 {
			runtime.Gosched() // a reload must not delay requests by its share of time
		}
		line, _ := rows.FieldPos(0)
		field := "[" + strconv.Itoa(len(t.Overrides)) + "]"
		if len(keys) < parts {
			keys = make([]string, 1024*parts)
		}
		o := policy.Override{Key: keys[:parts:parts]}
		keys = keys[parts:]
		for i, value := range row[:parts] {
			if o.Key[i] = value; value == "" {
				more = r.Fail(line, 1, field+".key["+strconv.Itoa(i)+"]", `""`, "want a value, or * for any; a list of overrides can name a missing value")
			}
		}
		a := known[row[parts]]
		if a == nil {
			a = r.allowance(row[parts])
			known[strings.Clone(row[parts])] = a
		}
		if a.want != "" {
			more = r.Fail(line, 1, field+".limits", fault.Quote(row[parts]), a.want)
		}
		o.Limits, o.Block, o.Unlimited = a.limits, a.block, a.unlimited
		t.Overrides, t.Lines = append(t.Overrides, o), append(t.Lines, int32(line))
	}
	return t
}

// end reports the error after the last row.
func (r *Reader) end(err error) {
	if e := (*csv.ParseError)(nil); errors.As(err, &e) {
		r.Fail(e.Line, e.Column, "", "", fmt.Sprintf("want CSV with %d columns: %v", len(r.Key)+1, e.Err))
	} else if err != io.EOF {
		r.Fail(1, 1, "", "", err.Error())
	}
}

func (r *Reader) columns() (names []string) {
	for _, k := range r.Key {
		names = append(names, k.String())
	}
	return append(names, "limits")
}

// isHeader reports whether the columns are those of the key. A key with one part may have the
// name key.
func (r *Reader) isHeader(row []string) bool {
	want := r.columns()
	if len(row) != len(want) {
		return false
	}
	for i, name := range row {
		if name = strings.TrimSpace(name); name != want[i] && (i > 0 || len(row) != 2 || name != "key") {
			return false
		}
	}
	return true
}

// allowance reads a cell of limits, which semicolons separate, 0 or unlimited.
func (r *Reader) allowance(cell string) *allowance {
	a := &allowance{}
	switch strings.TrimSpace(cell) {
	case "0":
		a.block = true
		return a
	case "unlimited":
		a.unlimited = true
		return a
	}
	for text := range strings.SplitSeq(cell, ";") {
		l, want := r.Limit(strings.TrimSpace(text))
		if want != "" {
			a.want = want
			return a
		}
		a.limits = append(a.limits, l)
	}
	return a
}

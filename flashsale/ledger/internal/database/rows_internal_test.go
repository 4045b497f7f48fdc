package database

import (
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestRows reads rows back that a statement got as columns.
func TestRows(t *testing.T) {
	type row struct {
		name string
		n    int64
	}
	db, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "a.db"), Config{Conns: 1, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, want := range [][]row{nil, {{"a", 1}}, {{`"\`, -1 << 53}, {"", 1 << 53}, {"墨\x01\u2028", 0}, {"a b~", 7}}} {
		columns := []Column{Texts("name", want, func(r *row) string { return r.name }), Numbers("n", want, func(r *row) int64 { return r.n })}
		var got []row
		err := db.Do(t.Context(), ReadOne, func(x *Tx) (err error) {
			table, args := x.Rows(2, columns...)
			got, err = List(x, func(scan func(...any) error) (r row, err error) {
				err = scan(&r.name, &r.n)
				return r, err
			}, "SELECT name, n + $1 FROM "+table, append([]any{1}, args...)...)
			return err
		})
		for i := range got {
			got[i].n--
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("rows %v, %v; want %v", got, err, want)
		}
	}
	pg := &Tx{db: &DB{d: postgres}}
	table, args := pg.Rows(3, Texts("name", []row{{"a", 1}}, func(r *row) string { return r.name }), Numbers("n", []row{{"a", 1}}, func(r *row) int64 { return r.n }))
	if want := "unnest($3::text[], $4::bigint[]) AS r (name, n)"; table != want || len(args) != 2 {
		t.Errorf("in PostgreSQL %q with %d arguments, want %q with 2", table, len(args), want)
	}
}

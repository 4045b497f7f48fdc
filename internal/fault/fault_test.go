package fault_test

import (
	"errors"
	"testing"

	"github.com/floodweir/weir/internal/fault"
)

func TestError(t *testing.T) {
	for want, e := range map[string]fault.Error{
		`policy "p": limits: "x": want a limit`:                  {Policy: "p", Field: "limits", Value: `"x"`, Want: "want a limit"},
		`policy "": name: want letters`:                          {Field: "name", Want: "want letters"},
		`weir.yaml:3:5: store: 7: want a URL`:                    {File: "weir.yaml", Line: 3, Column: 5, Field: "store", Value: "7", Want: "want a URL"},
		`expr:1:2: syntax error`:                                 {File: "expr", Line: 1, Column: 2, Want: "syntax error"},
		`edge: policy "p": cost.json: "a": want a header`:        {File: "edge", Policy: "p", Field: "cost.json", Value: `"a"`, Want: "want a header"},
		`edge: only: want a policy of the file`:                  {File: "edge", Field: "only", Want: "want a policy of the file"},
		`policy "p": match.headers.a?b: want names of RFC 9110…`: {Policy: "p", Field: "match.headers.a\nb", Want: "want names of RFC 9110…"},
	} {
		if got := e.Error(); got != want {
			t.Errorf("Error() = %s, want %s", got, want)
		}
	}
}

func TestErrors(t *testing.T) {
	at := func(line, column int, want string) *fault.Error {
		return &fault.Error{File: "f", Line: line, Column: column, Want: want}
	}
	errs := fault.Errors{at(2, 1, "b"), at(1, 9, "c"), at(1, 2, "a"), at(1, 9, "c")}.Sorted()
	if got := errs.Error(); got != "f:1:2: a\nf:1:9: c\nf:2:1: b" {
		t.Errorf("sorted: %s", got)
	}
	err := errs.Err()
	if e := (*fault.Error)(nil); !errors.Is(err, fault.ErrInvalid) || !errors.As(err, &e) || e.Column != 2 {
		t.Errorf("the list does not wrap its errors: %v", err)
	}
	if err := (fault.Errors{}).Err(); err != nil {
		t.Errorf("Err of an empty list = %v, want nil", err)
	}
	many := make(fault.Errors, fault.MaxShown+7)
	for i := range many {
		many[i] = at(i+1, 1, "x")
	}
	if cut := many.Cut(); len(cut) != fault.MaxShown+1 || cut[fault.MaxShown].Error() != "f:200:1: and at least 7 more faults" {
		t.Errorf("Cut: %d errors, last %v", len(cut), cut[len(cut)-1])
	}
}

func TestCollector(t *testing.T) {
	c := fault.Collector{File: "edge", Policy: "p", Max: 2}
	for range 3 {
		c.Add("field", "1", "want %d", 2)
	}
	if got := c.Errs.Error(); got != "edge: policy \"p\": field: 1: want 2\nedge: policy \"p\": field: 1: want 2" {
		t.Errorf("collected: %s", got)
	}
}

package sale_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// TestEditSeesEveryField checks that no field of a Draft can change unnoticed.
func TestEditSeesEveryField(t *testing.T) {
	now := time.Date(2031, 5, 1, 10, 0, 0, 0, time.UTC)
	before := sale.Draft{SKU: "tea", Title: "Tea", Price: 9900, Stock: 5, PerUser: 2, StartsAt: now, EndsAt: now.Add(time.Hour)}.WithDefaults()
	s := sale.Sale{ID: "a1", Draft: before, State: sale.Exposed}
	if err := s.ValidateEdit(before, now); err != nil || before.Changes(before) != "" {
		t.Fatalf("the same draft: %v, %q", err, before.Changes(before))
	}
	may := map[string]bool{"Title": true, "EndsAt": true, "PerUser": true, "MaxQuantity": true, "PayWithin": true, "Work": true, "Campaign": true}
	for i := range reflect.TypeFor[sale.Draft]().NumField() {
		name, d := reflect.TypeFor[sale.Draft]().Field(i).Name, before
		switch v := reflect.ValueOf(&d).Elem().Field(i); x := v.Interface().(type) {
		case string:
			v.SetString(x + "X")
			switch name {
			case "Currency":
				v.SetString("USD")
			case "Campaign":
				v.SetString("spring")
			}
		case time.Time:
			v.Set(reflect.ValueOf(x.Add(time.Minute)))
		case bool:
			v.SetBool(!x)
		case time.Duration:
			v.SetInt(int64(x + time.Second))
		default:
			if v.Kind() == reflect.String {
				v.SetString("other")
			} else {
				v.SetInt(v.Int() + 1)
			}
		}
		if d.Changes(before) == "" {
			t.Errorf("%s: Changes has no change", name)
		}
		if err := s.ValidateEdit(d, now); (err == nil) != may[name] || err != nil && len(sale.FieldErrors(err)) == 0 {
			t.Errorf("%s: ValidateEdit = %v, want that it can change: %v", name, err, may[name])
		}
	}
	ended := s
	ended.State = sale.Ended
	if err := ended.ValidateEdit(before, now); err == nil || !strings.Contains(err.Error(), "got state ended") {
		t.Errorf("ValidateEdit of an ended sale = %v", err)
	}
}

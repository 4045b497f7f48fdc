package explain_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/explain"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/share"
)

// TestRegionText checks what the handler and the text say about a region.
func TestRegionText(t *testing.T) {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	set := every(t)
	for _, c := range []struct {
		region *explain.Region
		want   string
	}{
		{&explain.Region{Name: "eu", Part: 40, Limit: "2/5005us burst 80", Bound: 60, Rest: 20, RestLimit: "1/5005us burst 40", Lag: explain.Seconds(3 * time.Millisecond),
			Shares: explain.SharesOf(&share.Division{Stranded: 0.25, Holders: []share.Holder{{Rate: 0.5}}})},
			"      region eu: admits at most 60%, 40% by itself (2/5005us burst 80), 20% shared by all regions (1/5005us burst 40)\n" +
				"      global store: lag 0.003 s\n      divided: 1 process holds 50.0% of the rate, 25.0% more than their demand\n"},
		{&explain.Region{Name: "ap", Rest: 20, RestLimit: "1/5005us burst 40", Problem: "no reply"},
			"      region ap: admits at most 0%, 20% shared by all regions (1/5005us burst 40)\n      not shared: no reply\n"},
		{&explain.Region{Name: "us", Part: 30, Limit: "30/s burst 3", Bound: 30}, "      region us: admits at most 30%, 30% by itself (30/s burst 3)\n"},
		{nil, ""},
	} {
		h := explain.New(explain.Config{
			Store: store, Policies: func() *policy.Set { return set },
			Region: func(context.Context, string, weir.Limit) *explain.Region { return c.region },
		})
		r := httptest.NewRequest("GET", "/v1/explain?url=/api/x&client_ip=192.0.2.1", nil)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(access.WithActor(r.Context(), access.Actor{Role: access.Operate})))
		var a explain.Answer
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
			t.Fatalf("%s: %v", w.Body, err)
		}
		var b strings.Builder
		if err := a.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); !strings.Contains(got, c.want) || c.region == nil && strings.Contains(got, "region") {
			t.Errorf("text:\n%swant:\n%s", got, c.want)
		}
	}
}

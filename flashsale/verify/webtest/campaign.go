package webtest

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// campaign tests the sales of a campaign: first is one of them, and a second one appears without
// a restart.
func (s *suite) campaign(t *testing.T, o *office, first string) {
	const path = "/api/campaigns/spring-tea"
	b := s.browser()
	ids := func(a response) string {
		all, _ := a.json["sales"].([]any)
		var got []string
		for _, each := range all {
			v, _ := each.(map[string]any)
			id, _ := v["id"].(string)
			got = append(got, id)
			if v["phase"] != "upcoming" || v["campaign"] != "spring-tea" || v["now"] != nil || v["product"] == nil {
				t.Errorf("a sale of the campaign is %v", v)
			}
		}
		return strings.Join(got, " ")
	}
	a := b.do(t, "GET", path, "", nil)
	a.want(t, http.StatusOK, "")
	if ids(a) != first || a.text("campaign") != "spring-tea" || a.json["poll_after_ms"] == nil {
		t.Errorf("the campaign is %s", a.body)
	}
	tag := a.header.Get("ETag")
	if cache := a.header.Get("Cache-Control"); tag == "" || cache != "public, max-age=1" {
		t.Errorf("the campaign has ETag %q, Cache-Control %q", tag, cache)
	}
	if got := b.do(t, "GET", path, "", map[string]string{"If-None-Match": tag}); got.status != http.StatusNotModified || got.body != "" {
		t.Errorf("with its ETag: %d %s, want 304", got.status, got.body)
	}
	b.do(t, "GET", "/c/spring-tea", "", nil).want(t, http.StatusOK, "")
	second := o.expose(t, saleConfig{Title: "Second", Stock: 3, StartsIn: 2 * time.Hour, Campaign: "spring-tea"})
	if !poll(200*time.Millisecond, func() bool {
		a = b.do(t, "GET", path, "", nil)
		a.want(t, http.StatusOK, "")
		return ids(a) == first+" "+second
	}) {
		t.Errorf("with a second sale, the campaign is %s", a.body)
	}
	for _, path := range []string{"/api/campaigns/unknown", "/api/campaigns/Spring", "/api/campaigns/-a", "/api/campaigns/" + strings.Repeat("a", 41), path + "/x"} {
		b.do(t, "GET", path, "", nil).want(t, http.StatusNotFound, "not_found")
	}
	b.do(t, "POST", path, "", nil).want(t, http.StatusMethodNotAllowed, "invalid")
	bad := o.do(t, "POST", "/api/sales", object("sku", quote("a"), "title", quote("A"), "stock", "1", "campaign", quote("A b"),
		"starts_at", quote("2031-01-01T00:00:00.000Z"), "ends_at", quote("2031-01-01T01:00:00.000Z")))
	bad.want(t, http.StatusBadRequest, "invalid")
	if bad.text("field") != "campaign" {
		t.Errorf("a draft with a bad campaign: %s", bad.body)
	}
}

package webtest

import (
	"net/http"
	"strings"
	"testing"
)

// contacts tests the contact of an order of one; two is another user.
func contacts(t *testing.T, one, two *browser, order string) {
	t.Helper()
	contact := func(name, phone string) string { return object("name", quote(name), "phone", quote(phone)) }
	two.do(t, "PUT", order+"/contact", contact("A", "12345"), nil).want(t, http.StatusNotFound, "not_found")
	site := two.sameSite
	two.sameSite = false
	two.do(t, "PUT", order+"/contact", contact("A", "12345"), map[string]string{"Sec-Fetch-Site": "cross-site"}).want(t, http.StatusForbidden, "csrf")
	two.sameSite = site
	for body, field := range map[string]string{
		"": "name", contact("A\tB", "12345"): "name", contact("A", "1234x"): "phone", `{"name":"A","phone":"12345","mail":"a"}`: "mail",
		`{"name":"A","phone":"12345","country":"cn","city":"a","street":"b"}`: "country", `{"name":"A","phone":"12345","country":"CN","street":"b"}`: "city",
	} {
		a := one.do(t, "PUT", order+"/contact", body, nil)
		a.want(t, http.StatusBadRequest, "invalid")
		if a.text("field") != field || !strings.Contains(a.text("detail"), field) {
			t.Errorf("%s: %s, want the field %s named", body, a.body, field)
		}
	}
	a := one.do(t, "PUT", order+"/contact", object("name", quote(" <王>小明 "), "phone", quote("+86 138-0013-8000"),
		"country", quote("CN"), "city", quote("杭州"), "street", quote(" 文三路 1 号 ")), nil)
	a.want(t, http.StatusOK, "")
	for _, a := range []response{a, one.do(t, "GET", order, "", nil)} {
		c, _ := a.json["contact"].(map[string]any)
		if c["name"] != "<王>小明" || c["phone"] != "+86 138-0013-8000" || c["street"] != "文三路 1 号" || c["country"] != "CN" || a.text("address") != "optional" || a.text("state") != "pending_pay" {
			t.Errorf("%s: %s", a.request, a.body)
		}
	}
	post := one.do(t, "POST", order+"/contact", contact("A", "12345"), nil)
	if post.want(t, http.StatusMethodNotAllowed, "invalid"); post.header.Get("Allow") != "PUT" {
		t.Errorf("POST: Allow %q", post.header.Get("Allow"))
	}
}

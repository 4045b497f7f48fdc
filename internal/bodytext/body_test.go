package bodytext_test

import (
	"strings"
	"testing"

	"github.com/floodweir/weir/internal/bodytext"
)

const (
	urlencoded = "application/x-www-form-urlencoded"
	multi      = "multipart/form-data; boundary=b"
)

// field returns a part of a multipart form.
func field(disposition, value string, headers ...string) string {
	return "--b\r\nContent-Disposition: form-data; " + disposition + "\r\n" + strings.Join(append(headers, ""), "\r\n") + "\r\n" + value + "\r\n"
}

func TestForm(t *testing.T) {
	email := field(`name="email"`, "ada@example.com")
	for _, c := range []struct{ media, body, also, want string }{
		{urlencoded, "email=ada%40example.com&password=x", "", "ada@example.com"},
		{urlencoded + "; charset=UTF-8", "email=a+b", "", "a b"},
		{urlencoded + "; charset=ibm037", "email=a", "", ""},
		{urlencoded, "email=a&email=a", "a", "a"},
		{urlencoded, "email=a&email=b", "", ""},
		{urlencoded, "email=a", "b", ""},
		{urlencoded, "x=1", "a", ""},
		{urlencoded, "email=a&Email=b", "", ""},
		{urlencoded, "email=a&email[]=b", "", ""},
		{urlencoded, "email=a&+email=b", "", ""},
		{urlencoded, "email=a&email%00x=b", "", ""},
		{urlencoded, "email=a;email=b", "", ""},
		{urlencoded, "email=%zz", "", ""},
		{urlencoded, "", "", ""},
		{"text/plain", "email=a", "", ""},
		{"", "email=a", "", ""},
		{multi, email + "--b--\r\n", "", "ada@example.com"},
		{multi, email + field(`name="file"; filename="x"`, "data") + "--b--", "", "ada@example.com"},
		{multi, email + field(`name="email"; filename="x"`, "b") + "--b--", "", ""},
		{multi, field(`name="email"`, "=61", "Content-Transfer-Encoding: quoted-printable") + "--b--", "", ""},
		{multi, email + email + "--b--", "", "ada@example.com"},
		{multi, email + field(`name="email"`, "b") + "--b--", "", ""},
		{multi, email, "", ""}, // without its end
		{"multipart/form-data", email + "--b--", "", ""},
		{"multipart/mixed; boundary=b", email + "--b--", "", ""},
	} {
		f := bodytext.FormatOf(c.media)
		got := ""
		if f.IsForm() {
			var also []string
			if c.also != "" {
				also = []string{c.also}
			}
			got = f.Field([]byte(c.body), "email", also)
		}
		if got != c.want {
			t.Errorf("%s %q, query %q: %q, want %q", c.media, c.body, c.also, got, c.want)
		}
	}
	f := bodytext.FormatOf(urlencoded)
	for name, want := range map[string]string{"user[email]": "a", "user[name]": "b", "user.name": "", "user": ""} {
		if got := f.Field([]byte("user[email]=a&user[name]=b"), name, nil); got != want {
			t.Errorf("%s of a nested form: %q, want %q", name, got, want)
		}
	}
	if got := f.Field([]byte("user_name=a&user.name=b"), "user_name", nil); got != "" {
		t.Errorf("a field under two names: %q", got)
	}
}

func TestMember(t *testing.T) {
	for _, c := range []struct{ body, path, want string }{
		{`{"email":"ada@example.com"}`, "email", "ada@example.com"},
		{`{"user":{"email":"a"}}`, "user.email", "a"},
		{`{"user":{"id":7.0}}`, "user.id", "7"},
		{`{"user":{"id":true}}`, "user.id", "true"},
		{`{"user":{"id":null}}`, "user.id", ""},
		{`{"user":{"id":[1]}}`, "user.id", ""},
		{`{"user.id":1}`, "user.id", ""},
		{`[{"email":"a"}]`, "email", ""},
		{`"email"`, "email", ""},
		{`{"email":"a","email":"a"}`, "email", ""},
		{`{"email":"a","Email":"b"}`, "email", ""},
		{`{"Email":"b","email":"a"}`, "email", ""},
		{`{"\u0065mail":"a","email":"b"}`, "email", ""},
		{`{"kelvin":"a","` + "\u212a" + `elvin":"b"}`, "kelvin", ""},
		{`{"email":"a"} {}`, "email", ""},
		{`{"email":"a"`, "email", ""},
		{"{\"email\":\"\xff\"}", "email", ""},
		{"", "email", ""},
	} {
		if got := bodytext.Member([]byte(c.body), c.path); got != c.want {
			t.Errorf("%s of %q: %q, want %q", c.path, c.body, got, c.want)
		}
	}
	for media, want := range map[string]bool{
		"application/json": true, "application/json; charset=utf-8": true, "Application/Vnd.Api+JSON": true,
		"application/json; charset=utf-16": false, "text/json": false, "application/jsonp": false,
	} {
		if got := bodytext.FormatOf(media).IsJSON(); got != want {
			t.Errorf("%s is JSON: %v", media, got)
		}
	}
}

// FuzzBody checks that a second, different value of a field never leaves the first one in force.
func FuzzBody(f *testing.F) {
	f.Add("email", "a", "b")
	f.Add("user[email]", "a", "a")
	f.Fuzz(func(t *testing.T, name, first, second string) {
		for _, media := range []string{urlencoded, multi} {
			bodytext.FormatOf(media).Field([]byte(name+"="+first+"&"+second), name, nil)
			bodytext.FormatOf(media).Field([]byte(field(`name="`+name+`"`, first)+field(second, first)+"--b--"), name, nil)
		}
		if strings.ContainsAny(name+first+second, "&=%;+") {
			return
		}
		got := bodytext.FormatOf(urlencoded).Field([]byte(name+"="+first+"&"+name+"="+second), name, nil)
		if first != second && got != "" || first == second && got != first {
			t.Errorf("%q is %q and %q: got %q", name, first, second, got)
		}
	})
}

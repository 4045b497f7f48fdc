package pages

import (
	"net/http"
	"strconv"
	"strings"
)

// languages returns the languages of the pages.
func languages() []string { return []string{"en", "zh"} }

// cookie is the name of the cookie that remembers the language.
const cookie = "fs_lang"

// language returns the language of a response: that of the query, which is remembered, or the
// remembered one, or the one that the browser prefers.
func (s *site) language(w http.ResponseWriter, r *http.Request) string {
	switch lang := r.URL.Query().Get("lang"); lang {
	case "en", "zh":
		http.SetCookie(w, &http.Cookie{Name: cookie, Value: lang, Path: "/", MaxAge: 365 * 24 * 3600, SameSite: http.SameSiteLaxMode})
		return lang
	}
	if c, err := r.Cookie(cookie); err == nil && (c.Value == "en" || c.Value == "zh") {
		return c.Value
	}
	if lang := accepted(r.Header.Get("Accept-Language")); lang != "" {
		return lang
	}
	return s.fallback
}

// accepted returns the language that an Accept-Language header prefers, the first of equals, or
// an empty string. It reads at most 16 ranges.
func accepted(field string) (lang string) {
	best := 0.0
	for i, part := range strings.SplitN(field, ",", 17) {
		if i == 16 {
			break
		}
		name, params, _ := strings.Cut(part, ";")
		primary, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(name)), "-")
		if primary != "en" && primary != "zh" {
			continue
		}
		q := 1.0
		if value, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(params)), "q="); ok {
			var err error
			if q, err = strconv.ParseFloat(value, 64); err != nil || !(q >= 0 && q <= 1) {
				continue
			}
		}
		if q > best {
			best, lang = q, primary
		}
	}
	return lang
}

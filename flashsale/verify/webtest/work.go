package webtest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/http"
	"strings"
	"testing"
)

// nonce finds one of at least so many bits, or with less of fewer.
func nonce(challenge string, want int, less bool) string {
	for i := 0; ; i++ {
		n := fmt.Sprint(i)
		sum := sha256.Sum256([]byte(challenge + ":" + n))
		if (bits.LeadingZeros32(binary.BigEndian.Uint32(sum[:])) < want) == less {
			return n
		}
	}
}

// works gets a ticket that costs 10 bits of work; of the sale free they cost none.
func (s *suite) works(t *testing.T, id, free string) {
	path := "/api/sales/" + id
	s.browser().do(t, "GET", path+"/work", "", nil).is(t, http.StatusUnauthorized, "no_session")
	one, two := s.guest(t), s.guest(t)
	told := one.do(t, "GET", path+"/work", "", nil)
	told.is(t, http.StatusOK, "")
	challenge := told.text("challenge")
	if challenge == "" || told.json["bits"] != 10.0 || one.do(t, "GET", path+"/work", "", nil).text("challenge") != challenge {
		t.Fatalf("the work is %s", told.body)
	}
	other := two.do(t, "GET", path+"/work", "", nil).text("challenge")
	if other == challenge {
		t.Error("two users have one challenge")
	}
	one.do(t, "GET", "/api/sales/"+free+"/work", "", nil).is(t, http.StatusOK, "")
	one.until(t, path+"/ticket", http.StatusOK)
	for _, c := range []struct{ body, says string }{
		{"", "work: got none"}, {object("work", quote("a b")), `work: got "a b", want`}, {object("work", quote(strings.Repeat("a", 17))), "want 1 to 16"},
		{object("work", quote(nonce(challenge, 10, true))), "zero bits, want 10"},
	} {
		a := one.do(t, "POST", path+"/ticket", c.body, nil)
		a.is(t, http.StatusForbidden, "work_due")
		a.by(t, "L3")
		a.retries(t, false)
		if a.text("challenge") != challenge || a.json["bits"] != 10.0 || a.text("field") != "work" || !strings.Contains(a.text("detail"), c.says) {
			t.Errorf("with %s: %s, want the challenge %s of 10 bits and %q", c.body, a.body, challenge, c.says)
		}
	}
	done := object("work", quote(nonce(challenge, 10, false)))
	a := one.do(t, "POST", path+"/ticket", done, nil)
	a.is(t, http.StatusCreated, "")
	one.do(t, "POST", path+"/ticket", done, nil).is(t, http.StatusOK, "")
	one.do(t, "POST", path+"/ticket", object("place", quote(a.text("place"))), nil).is(t, http.StatusOK, "")
	two.do(t, "POST", path+"/ticket", object("place", quote(a.text("place"))), nil).is(t, http.StatusForbidden, "work_due")
}

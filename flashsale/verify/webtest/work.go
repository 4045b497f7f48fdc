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

// nonce returns a solution with at least want bits, or with fewer if less is set.
func nonce(challenge string, want int, less bool) string {
	for i := 0; ; i++ {
		n := fmt.Sprint(i)
		sum := sha256.Sum256([]byte(challenge + ":" + n))
		if (bits.LeadingZeros32(binary.BigEndian.Uint32(sum[:])) < want) == less {
			return n
		}
	}
}

// work gets a ticket that costs 10 bits of proof of work; tickets of the sale free cost none.
func (s *suite) work(t *testing.T, id, free string) {
	path := "/api/sales/" + id
	s.browser().do(t, "GET", path+"/work", "", nil).want(t, http.StatusUnauthorized, "no_session")
	one, two := s.guest(t), s.guest(t)
	work := one.do(t, "GET", path+"/work", "", nil)
	work.want(t, http.StatusOK, "")
	challenge := work.text("challenge")
	if challenge == "" || work.json["bits"] != 10.0 || one.do(t, "GET", path+"/work", "", nil).text("challenge") != challenge {
		t.Fatalf("the work is %s", work.body)
	}
	other := two.do(t, "GET", path+"/work", "", nil).text("challenge")
	if other == challenge {
		t.Error("two users have the same challenge")
	}
	one.do(t, "GET", "/api/sales/"+free+"/work", "", nil).want(t, http.StatusOK, "")
	one.awaitStatus(t, path+"/ticket", http.StatusOK)
	for _, c := range []struct{ body, want string }{
		{"", "work: got none"}, {object("work", quote("a b")), `work: got "a b", want`}, {object("work", quote(strings.Repeat("a", 17))), "want 1 to 16"},
		{object("work", quote(nonce(challenge, 10, true))), "zero bits, want 10"},
	} {
		a := one.do(t, "POST", path+"/ticket", c.body, nil)
		a.want(t, http.StatusForbidden, "work_due")
		a.wantLayer(t, "L3")
		a.wantRetryAfter(t, false)
		if a.text("challenge") != challenge || a.json["bits"] != 10.0 || a.text("field") != "work" || !strings.Contains(a.text("detail"), c.want) {
			t.Errorf("with %s: %s, want the challenge %s of 10 bits and %q", c.body, a.body, challenge, c.want)
		}
	}
	done := object("work", quote(nonce(challenge, 10, false)))
	a := one.do(t, "POST", path+"/ticket", done, nil)
	a.want(t, http.StatusCreated, "")
	one.do(t, "POST", path+"/ticket", done, nil).want(t, http.StatusOK, "")
	one.do(t, "POST", path+"/ticket", object("place", quote(a.text("place"))), nil).want(t, http.StatusOK, "")
	two.do(t, "POST", path+"/ticket", object("place", quote(a.text("place"))), nil).want(t, http.StatusForbidden, "work_due")
}

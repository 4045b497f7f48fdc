package pass_test

import (
	"encoding/base64"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
)

var (
	at     = time.UnixMilli(1_800_000_000_123).UTC()
	secret = []byte(strings.Repeat("s", 32))

	theSession = pass.Session{User: "u-1", Expires: at}
	theTicket  = pass.Ticket{Sale: "s1", Epoch: 3, User: "u-1", Ticket: "t-1", Rank: 1 << 50}
	theToken   = pass.Token{Sale: "s1", Epoch: 3, User: "u-1", Ticket: "t-1", Batch: "b", Until: at}
	theReceipt = sale.Reservation{ID: "r-1", Sale: "s1", Epoch: 3, User: "u-1", Slot: 2, Ticket: "t-1", At: at, PayBy: at.Add(time.Minute), Quantity: 1}
)

func keys(t testing.TB, secret []byte, older ...[]byte) *pass.Keys {
	t.Helper()
	k, err := pass.NewKeys(secret, older...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A kind signs one value, and opens any text.
type kind struct {
	name   string
	want   any
	signed func(*pass.Keys) string
	open   func(*pass.Keys, string) (any, error)
}

func kinds() []kind {
	before := at.Add(-time.Second)
	return []kind{
		{"session", theSession, func(k *pass.Keys) string { return k.Session(theSession) },
			func(k *pass.Keys, s string) (any, error) { return k.OpenSession(s, before) }},
		{"office", theSession, func(k *pass.Keys) string { return k.Office(theSession) },
			func(k *pass.Keys, s string) (any, error) { return k.OpenOffice(s, before) }},
		{"ticket", theTicket, func(k *pass.Keys) string { return k.Ticket(theTicket) },
			func(k *pass.Keys, s string) (any, error) { return k.OpenTicket(s) }},
		{"token", theToken, func(k *pass.Keys) string { return k.Token(theToken) },
			func(k *pass.Keys, s string) (any, error) { return k.OpenToken(s) }},
		{"receipt", theReceipt, func(k *pass.Keys) string { return k.Receipt(theReceipt) },
			func(k *pass.Keys, s string) (any, error) { return k.OpenReceipt(s) }},
	}
}

// TestReceiptQuantity checks that a receipt has its units, and that one of one unit is as before
// there were quantities.
func TestReceiptQuantity(t *testing.T) {
	k := keys(t, secret)
	for quantity := range sale.MaxQuantity + 1 {
		r := theReceipt
		r.Quantity = quantity
		text := k.Receipt(r)
		want := r
		want.Quantity = max(1, quantity)
		if got, err := k.OpenReceipt(text); err != nil || got != want {
			t.Errorf("receipt of %d units opens as %+v, %v", quantity, got, err)
		}
		if same := text == k.Receipt(theReceipt); same != (quantity <= 1) {
			t.Errorf("receipt of %d units is the same as that of one: %v", quantity, same)
		}
	}
}

// TestKinds checks that what is signed opens as what it was, and as no other kind.
func TestKinds(t *testing.T) {
	k := keys(t, secret)
	for _, a := range kinds() {
		text := a.signed(k)
		if text == "" || len(text) > 512 {
			t.Errorf("%s is %d characters", a.name, len(text))
		}
		for _, b := range kinds() {
			got, err := b.open(k, text)
			switch {
			case a.name == b.name && (err != nil || !reflect.DeepEqual(got, a.want)):
				t.Errorf("%s opens as %+v, %v; want %+v", a.name, got, err, a.want)
			case a.name != b.name && !errors.Is(err, pass.ErrBad):
				t.Errorf("a %s opens as a %s: %+v, %v", a.name, b.name, got, err)
			}
		}
	}
}

// TestOneSpelling checks that of a signed string no other spelling is accepted, nor any change of it.
func TestOneSpelling(t *testing.T) {
	k := keys(t, secret)
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for _, c := range kinds() {
		text := c.signed(k)
		bad := []string{"", text + "=", text + "==", text + "A", " " + text, text + "\n", text[:40] + "\r\n" + text[40:],
			strings.NewReplacer("-", "+", "_", "/").Replace(text) + "+", text[:len(text)-1], text[1:], text + text,
			strings.Repeat("A", 1<<20), "v1." + text}
		for i := range len(text) {
			other := alphabet[(strings.IndexByte(alphabet, text[i])+1)%64]
			bad = append(bad, text[:i]+string(other)+text[i+1:])
		}
		// Every last character that spells the same bytes to a lenient decoder.
		for i := range len(alphabet) {
			if s := text[:len(text)-1] + alphabet[i:i+1]; s != text {
				bad = append(bad, s)
			}
		}
		for _, s := range bad {
			if got, err := c.open(k, s); !errors.Is(err, pass.ErrBad) {
				t.Errorf("%s: %.60q opens as %+v, %v", c.name, s, got, err)
			}
		}
	}
}

// TestRotation checks that after a change of secrets the signatures of the older one are accepted, and
// new ones are made with the new one alone.
func TestRotation(t *testing.T) {
	newer := []byte(strings.Repeat("n", 40))
	before, during, after := keys(t, secret), keys(t, newer, secret), keys(t, newer, nil)
	for _, c := range kinds() {
		if _, err := c.open(during, c.signed(before)); err != nil {
			t.Errorf("%s of the older secret: %v", c.name, err)
		}
		if _, err := c.open(after, c.signed(during)); err != nil {
			t.Errorf("%s signed while there were two: %v", c.name, err)
		}
		if _, err := c.open(after, c.signed(before)); !errors.Is(err, pass.ErrBad) {
			t.Errorf("%s of a secret that is gone: %v", c.name, err)
		}
		if _, err := c.open(before, c.signed(after)); !errors.Is(err, pass.ErrBad) {
			t.Errorf("%s of a secret that is not known yet: %v", c.name, err)
		}
	}
	sealed, err := before.SealKey("bank", "a key")
	if err != nil {
		t.Fatal(err)
	}
	got, err := during.OpenKey("bank", sealed)
	_, gone := after.OpenKey("bank", sealed)
	_, other := before.OpenKey("shop", sealed)
	if got != "a key" || err != nil || !errors.Is(gone, pass.ErrBad) || !errors.Is(other, pass.ErrBad) {
		t.Errorf("a key of a provider: %q, %v; without the secret %v; of another provider %v", got, err, gone, other)
	}
	if !during.CSRFOK("c", before.CSRF("c")) || after.CSRFOK("c", before.CSRF("c")) ||
		!during.PasswordOK("c", "h", before.Password("c", "h")) || after.PasswordOK("c", "h", before.Password("c", "h")) {
		t.Error("CSRF or password do not follow the change")
	}
}

func TestExpiry(t *testing.T) {
	k := keys(t, secret)
	text := k.Session(theSession)
	if _, err := k.OpenSession(text, at.Add(-time.Millisecond)); err != nil {
		t.Errorf("a moment before its end: %v", err)
	}
	if _, err := k.OpenSession(text, at); !errors.Is(err, pass.ErrExpired) {
		t.Errorf("at its end: %v", err)
	}
	if _, err := k.OpenSession(k.Session(pass.Session{Expires: at}), at.Add(-time.Hour)); !errors.Is(err, pass.ErrBad) {
		t.Errorf("without a user: %v", err)
	}
}

func TestProofs(t *testing.T) {
	k := keys(t, secret)
	body := []byte(`{"receipt":"r","payment":"p","amount":1}`)
	sig := k.CSRF(string(body))
	if !k.CSRFOK(string(body), sig) {
		t.Error("a good proof is refused")
	}
	for _, bad := range []string{"", strings.ToUpper(sig), sig[:62], sig + "00", "0x" + sig, " " + sig, k.Password("a", "b"), strings.Repeat("z", 64)} {
		if k.CSRFOK(string(body), bad) {
			t.Errorf("%q is accepted", bad)
		}
	}
	if k.CSRFOK(" "+string(body), sig) {
		t.Error("another body is accepted")
	}
	if !k.CSRFOK("cookie", k.CSRF("cookie")) || k.CSRFOK("cookie2", k.CSRF("cookie")) || k.CSRFOK("cookie", "") {
		t.Error("CSRF")
	}
	bound := k.Password("session", "hash")
	if !k.PasswordOK("session", "hash", bound) || k.PasswordOK("session2", "hash", bound) || k.PasswordOK("session", "hash2", bound) ||
		k.PasswordOK("session", "hash", "") || k.PasswordOK("session", "hash", k.CSRF("session\nhash")) {
		t.Error("password")
	}
}

func TestTooLong(t *testing.T) {
	k := keys(t, secret)
	long := strings.Repeat("x", pass.MaxField+1)
	if s := k.Session(pass.Session{User: long, Expires: at}); s != "" {
		t.Errorf("a user of %d bytes is signed", len(long))
	}
	longest := long[1:]
	r := sale.Reservation{ID: longest, Sale: longest, User: longest, Ticket: longest}
	if s := k.Receipt(r); s == "" {
		t.Error("the longest texts are not signed")
	} else if got, err := k.OpenReceipt(s); err != nil || got.ID != longest {
		t.Errorf("the longest texts do not open: %v", err)
	}
}

func TestSecrets(t *testing.T) {
	for _, c := range [][][]byte{{nil}, {secret[:31]}, {secret, secret[:5]}, {secret, secret, secret}} {
		if _, err := pass.NewKeys(c[0], c[1:]...); err == nil {
			t.Errorf("secrets of %d bytes and %d more are accepted", len(c[0]), len(c)-1)
		}
	}
}

// FuzzOpen: no text is accepted but one that signing gives, and none makes anything fall.
func FuzzOpen(f *testing.F) {
	k := keys(f, secret)
	for _, c := range kinds() {
		f.Add(c.signed(k))
		f.Add(c.signed(k) + "A")
	}
	f.Add("")
	f.Add(strings.Repeat("A", 2000))
	f.Add(base64.RawURLEncoding.EncodeToString(make([]byte, 33)))
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := k.OpenSession(text, time.Time{}); err == nil && k.Session(v) != text {
			t.Errorf("session %q", text)
		}
		if v, err := k.OpenOffice(text, time.Time{}); err == nil && k.Office(v) != text {
			t.Errorf("office %q", text)
		}
		if v, err := k.OpenTicket(text); err == nil && k.Ticket(v) != text {
			t.Errorf("ticket %q", text)
		}
		if v, err := k.OpenToken(text); err == nil && k.Token(v) != text {
			t.Errorf("token %q", text)
		}
		if v, err := k.OpenReceipt(text); err == nil && k.Receipt(v) != text {
			t.Errorf("receipt %q", text)
		}
	})
}

// FuzzFields: whatever the fields say, what is signed opens as it was.
func FuzzFields(f *testing.F) {
	k := keys(f, secret)
	f.Add("s", "u", "t", int64(1), int64(2))
	f.Add("", "\x00", "ü", int64(-1), int64(1)<<62)
	f.Fuzz(func(t *testing.T, s, u, tk string, a, b int64) {
		want := pass.Ticket{Sale: s, Epoch: a, User: u, Ticket: tk, Rank: b}
		text := k.Ticket(want)
		if max(len(s), len(u), len(tk)) > pass.MaxField {
			if text != "" {
				t.Errorf("%+v is signed", want)
			}
			return
		}
		if got, err := k.OpenTicket(text); err != nil || got != want {
			t.Errorf("%+v opens as %+v, %v", want, got, err)
		}
	})
}

func BenchmarkOpenToken(b *testing.B) {
	k := keys(b, secret)
	text := k.Token(theToken)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.OpenToken(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkToken(b *testing.B) {
	k := keys(b, secret)
	b.ReportAllocs()
	for b.Loop() {
		k.Token(theToken)
	}
}

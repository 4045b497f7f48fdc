package pass_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/floodweir/weir/flashsale/pass"
)

// leading counts the zero bits of a hash as a whole number does.
func leading(challenge, nonce string) int {
	sum := sha256.Sum256([]byte(challenge + ":" + nonce))
	return 256 - new(big.Int).SetBytes(sum[:]).BitLen()
}

// exactly finds a nonce with so many bits and no more.
func exactly(challenge string, bits int) string {
	for i := 0; ; i++ {
		if nonce := strconv.Itoa(i); leading(challenge, nonce) == bits {
			return nonce
		}
	}
}

// TestWorkIsOnesOwn checks that work counts for its user and its sale alone, to the bit.
func TestWorkIsOnesOwn(t *testing.T) {
	k := keys(t, secret)
	challenge := k.Work("a1", "u1")
	if challenge != k.Work("a1", "u1") || len(challenge) != 43 {
		t.Errorf("the challenge is %q, and then %q", challenge, k.Work("a1", "u1"))
	}
	for bits := range 14 {
		nonce := exactly(challenge, bits)
		if got := k.WorkDone("a1", "u1", nonce); got != bits {
			t.Errorf("nonce %s has %d bits, want %d", nonce, got, bits)
		}
	}
	// A user at the end of a sale's ID is no other user of another sale's.
	others := [][2]string{{"a1", "u2"}, {"a2", "u1"}, {"a1u", "1"}, {"a", "1u1"}, {"", "a1u1"}, {"u1", "a1"}}
	nonce := exactly(challenge, 16)
	for _, o := range others {
		if c := k.Work(o[0], o[1]); c == challenge {
			t.Errorf("%q has the challenge of another", o)
		}
		if got, want := k.WorkDone(o[0], o[1], nonce), leading(k.Work(o[0], o[1]), nonce); got != want || got >= 16 {
			t.Errorf("the work of another has %d bits for %q, want %d", got, o, want)
		}
	}
	if got := keys(t, []byte(strings.Repeat("x", 32))).WorkDone("a1", "u1", nonce); got >= 16 {
		t.Errorf("work under another secret has %d bits", got)
	}
}

// TestWorkHostile checks that what is no nonce is no work, and nothing of it breaks.
func TestWorkHostile(t *testing.T) {
	k := keys(t, secret)
	for _, nonce := range []string{"", " ", "a b", "a:b", "a\x00", "a\n", "é", "\xff", "+", "/", "=", strings.Repeat("a", 17), strings.Repeat("a", 1<<20)} {
		if pass.IsNonce(nonce) || k.WorkDone("a1", "u1", nonce) != 0 {
			t.Errorf("%.20q is a nonce", nonce)
		}
	}
	for _, nonce := range []string{"0", "-", "_", "aZ9-_", strings.Repeat("f", 16)} {
		if !pass.IsNonce(nonce) {
			t.Errorf("%q is no nonce", nonce)
		}
	}
	long := strings.Repeat("u", pass.MaxField+1)
	if got := k.Work("a1", long); got != "" {
		t.Errorf("the challenge of a user that cannot be is %q", got)
	}
	if got := k.WorkDone(long, "u1", "0"); got != 0 {
		t.Errorf("work for a sale that cannot be has %d bits", got)
	}
}

// TestWorkAcrossSecrets checks that work on the older challenge counts while the older secret does.
func TestWorkAcrossSecrets(t *testing.T) {
	older := []byte(strings.Repeat("o", 32))
	before := keys(t, older)
	nonce := exactly(before.Work("a1", "u1"), 14)
	if got := keys(t, secret, older).WorkDone("a1", "u1", nonce); got < 14 {
		t.Errorf("during a change of secrets the older work has %d bits, want 14", got)
	}
	if got := keys(t, secret).WorkDone("a1", "u1", nonce); got >= 14 {
		t.Errorf("after it the older work has %d bits", got)
	}
}

func TestSolve(t *testing.T) {
	k := keys(t, secret)
	for _, bits := range []int{0, 1, 8, 12} {
		nonce, err := pass.Solve(t.Context(), k.Work("a1", "u1"), bits)
		if err != nil || !pass.IsNonce(nonce) || k.WorkDone("a1", "u1", nonce) < bits {
			t.Errorf("Solve(%d) = %q, %v", bits, nonce, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pass.Solve(gone, "c", 64); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

func BenchmarkWorkDone(b *testing.B) {
	k := keys(b, secret)
	b.ReportAllocs()
	for b.Loop() {
		k.WorkDone("a1b2c3d4e5f6g7h8", "0123456789abcdef0123456789abcdef", "2zik0zj")
	}
}

func BenchmarkSolve(b *testing.B) {
	var hashes float64
	for b.Loop() {
		nonce, _ := pass.Solve(b.Context(), "0123456789abcdef0123456789abcdef0123456789a", 18)
		n, _ := strconv.ParseUint(nonce, 36, 64)
		hashes += float64(n)
	}
	b.ReportMetric(hashes/b.Elapsed().Seconds(), "hashes/s")
}

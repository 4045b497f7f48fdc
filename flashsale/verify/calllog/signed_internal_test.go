package calllog

import (
	"encoding/base64"
	"strings"
	"testing"
)

func TestSigned(t *testing.T) {
	seal := func(fields string) string {
		return base64.RawURLEncoding.EncodeToString([]byte("\x01" + fields + strings.Repeat("s", 32)))
	}
	const eight = "\x00\x00\x00\x00\x00\x00\x00\x2a"
	receipt := seal("\x03r-1\x01s" + eight)
	ticket := seal("\x01s" + eight[:7] + "\x02" + "\x01u\x02t1" + eight)
	if got := ReservationOf(receipt); got != "r-1" {
		t.Errorf("ReservationOf = %q, want r-1", got)
	}
	if got := RankOf(ticket); got != 42 {
		t.Errorf("RankOf = %d, want 42", got)
	}
	token := seal("\x01s" + eight + "\x01u\x02t1\x01b" + eight)
	if got := EpochOf(token); got != 42 {
		t.Errorf("EpochOf = %d, want 42", got)
	}
	for _, bad := range []string{"", "r-1", "=", "AQ", seal(""), seal("\xff"), seal("\x03r"), seal("\x01s" + eight[:3]), strings.Repeat("A", 99), receipt + "=", token + "=", token[1:]} {
		if got := EpochOf(bad); got != 0 {
			t.Errorf("EpochOf(%q) = %d, want 0", bad, got)
		}
		if got := RankOf(bad); got != 0 {
			t.Errorf("RankOf(%q) = %d, want 0", bad, got)
		}
	}
	for _, bad := range []string{"", "r-1", "=", "AQ", seal(""), seal("\xff"), seal("\x03r")} {
		if got := ReservationOf(bad); got != "" {
			t.Errorf("reservationOf(%q) = %q, want none", bad, got)
		}
	}
}

func FuzzFields(f *testing.F) {
	f.Add("AQNyLTE", "tnttn")
	f.Fuzz(func(_ *testing.T, signed, kinds string) { fields(signed, kinds) })
}

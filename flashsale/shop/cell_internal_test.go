package shop

import "testing"

// TestCell checks that nothing that a buyer wrote is a formula in the merchant's spreadsheet.
func TestCell(t *testing.T) {
	for text, want := range map[string]string{
		"":                  "",
		"李雷":                "李雷",
		"Ann-Marie O'Hara":  "Ann-Marie O'Hara",
		"=1+1":              "'=1+1",
		"+1 234567":         "'+1 234567",
		"-1":                "'-1",
		"@SUM(A1)":          "'@SUM(A1)",
		"\t=1":              "'\t'=1",
		"  =1":              "  '=1",
		"＝1":                "'＝1",
		`a;=HYPERLINK("x")`: `a;'=HYPERLINK("x")`,
		"a; =1":             "a; '=1",
		"a,+1":              "a,'+1",
	} {
		if got := cell(text); got != want {
			t.Errorf("cell(%q) = %q, want %q", text, got, want)
		}
	}
}

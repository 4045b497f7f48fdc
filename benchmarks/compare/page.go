package compare

import (
	"bytes"
	"fmt"
	"os"
)

// Replace writes text between the comments "<!-- NAME -->" and "<!-- /NAME -->" of a page.
func Replace(page, name, text string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	begin, end := fmt.Sprintf("<!-- %s -->\n", name), fmt.Sprintf("<!-- /%s -->", name)
	before, rest, ok := bytes.Cut(old, []byte(begin))
	_, after, closed := bytes.Cut(rest, []byte(end))
	if !ok || !closed {
		return fmt.Errorf("compare: %s has no %s and %s", page, begin[:len(begin)-1], end)
	}
	return os.WriteFile(page, bytes.Join([][]byte{before, []byte(begin + "\n" + text + "\n" + end), after}, nil), 0o644)
}

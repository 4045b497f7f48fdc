package warning

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/floodweir/weir/policy"
)

// values returns the values of a key of the store, one for each part of the policy's key; "" for
// none. A hash replaces credentials. A key that is a hash itself is returned as it is.
func values(parts []policy.KeyPart, key string) []string {
	all, ok := policy.KeyValues(key)
	if !ok {
		_, hash, _ := strings.Cut(key, "|")
		return []string{hash}
	}
	for i, value := range all {
		if value != "" && i < len(parts) && parts[i].IsSecret() {
			all[i] = fmt.Sprintf("sha256:%.16x", sha256.Sum256([]byte(value)))
		}
	}
	return all
}

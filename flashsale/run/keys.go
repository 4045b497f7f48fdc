package run

import "github.com/floodweir/weir/flashsale/pass"

// Keys returns the keys of the secret in a file, for programs that sign sessions themselves.
func Keys(path string) (*pass.Keys, error) {
	secret, err := readSecret("secret", path)
	if err != nil {
		return nil, err
	}
	return pass.NewKeys(secret, nil)
}

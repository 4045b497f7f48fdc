package run

import "github.com/floodweir/weir/flashsale/pass"

// Keys are the keys of the secret in a file, for who signs sessions in place of a browser.
func Keys(path string) (*pass.Keys, error) {
	secret, err := readSecret("secret", path)
	if err != nil {
		return nil, err
	}
	return pass.NewKeys(secret, nil)
}

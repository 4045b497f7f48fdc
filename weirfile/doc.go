// Package weirfile reads the policy file, weir.yaml.
package weirfile

import _ "go.yaml.in/yaml/v4"

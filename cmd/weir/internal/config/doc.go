// Package config is the one place where the program reads its settings: from
// flags, else the environment, else the policy file, else defaults, in this
// order. Every default stands in this package.
package config

// Package config reads the settings of the program: from flags, else the environment,
// else the policy file, else defaults. It holds every default.
package config

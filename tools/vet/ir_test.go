package main

import "testing"

func TestForeign(t *testing.T) {
	for path, want := range map[string]bool{
		"fmt": false, "net/http": false, "cmd/internal/bio": false, "vendor/golang.org/x/net/idna": false,
		"github.com/floodweir/weir": false, "github.com/floodweir/weir_test": false, "github.com/floodweir/weir/contrib/gin_test": false,
		"github.com/redis/rueidis": true, "golang.org/x/mod/semver": true,
	} {
		if got := foreign(path); got != want {
			t.Errorf("foreign(%q) = %v, want %v", path, got, want)
		}
	}
}

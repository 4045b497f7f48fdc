// Command flashsale sells a thousand units to a million buyers, and not one more.
package main

import (
	_ "github.com/floodweir/weir"
	_ "github.com/floodweir/weir/contrib/failsafe"
	_ "github.com/floodweir/weir/contrib/rueidis"
	_ "github.com/floodweir/weir/weirfile"
	_ "github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/redis/rueidis"
	_ "github.com/spf13/cobra"
	_ "github.com/valyala/fasthttp"
	_ "golang.org/x/crypto/argon2"
	_ "golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite"
)

func main() {}

package weirecho_test

import (
	"fmt"
	"net/http/httptest"

	weirecho "github.com/floodweir/weir/contrib/echo"
	"github.com/labstack/echo/v5"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

func Example() {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	p, err := policy.New(policy.Config{
		Name:   "api",
		Match:  policy.Match{Paths: []string{"/api/*"}},
		Key:    []policy.KeyPart{{Source: policy.ClientIP}},
		Limits: []weir.Limit{weir.MustLimit("1/m")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := policy.NewSet(p)
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := httplimit.New(store, set, httplimit.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}

	e := echo.New()
	e.Use(weirecho.Middleware(m))
	e.GET("/api/users", func(c *echo.Context) error { return c.String(200, "hello") })

	for range 2 {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", "/api/users", nil))
		fmt.Printf("%d %q %q\n", w.Code, w.Header().Get("RateLimit"), w.Header().Get("Retry-After"))
	}
	// Output:
	// 200 "\"api\";r=0;t=60" ""
	// 429 "\"api\";r=0;t=60" "60"
}

// ExampleMiddleware limits wrong passwords on one route, and a group by another limit.
func ExampleMiddleware() {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	guessing, err := limitOf(store, policy.Config{Name: "guessing", Limits: []weir.Limit{weir.MustLimit("2/m")}, Count: policy.CountFailures})
	if err != nil {
		fmt.Println(err)
		return
	}
	reports, err := limitOf(store, policy.Config{Name: "reports", Limits: []weir.Limit{weir.MustLimit("1/m")}})
	if err != nil {
		fmt.Println(err)
		return
	}

	e := echo.New()
	e.GET("/login", func(c *echo.Context) error {
		if c.QueryParam("password") != "secret" {
			return echo.ErrUnauthorized
		}
		return c.NoContent(204)
	}, weirecho.Middleware(guessing))
	e.Group("/reports", weirecho.Middleware(reports)).GET("", func(c *echo.Context) error { return c.String(200, "report") })

	for _, target := range []string{"/login?password=secret", "/login?password=a", "/login?password=b", "/login?password=secret", "/reports", "/reports"} {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
		fmt.Println(target, w.Code)
	}
	// Output:
	// /login?password=secret 204
	// /login?password=a 401
	// /login?password=b 401
	// /login?password=secret 429
	// /reports 200
	// /reports 429
}

// limitOf is a middleware of one policy about the client's address.
func limitOf(store weir.Store, c policy.Config) (*httplimit.Middleware, error) {
	c.Key = []policy.KeyPart{{Source: policy.ClientIP}}
	p, err := policy.New(c)
	if err != nil {
		return nil, err
	}
	set, err := policy.NewSet(p)
	if err != nil {
		return nil, err
	}
	return httplimit.New(store, set, httplimit.Config{})
}

// ExampleLimit limits each client address.
func ExampleLimit() {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	e := echo.New()
	e.Use(weirecho.Limit(store, "1/m", weirecho.ByIP))
	e.GET("/", func(c *echo.Context) error { return c.String(200, "hello") })

	for range 2 {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 429
}

package weirfiber_test

import (
	"fmt"
	"net/http/httptest"

	weirfiber "github.com/floodweir/weir/contrib/fiber"
	"github.com/gofiber/fiber/v3"

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

	app := fiber.New()
	app.Use(weirfiber.Middleware(m))
	app.Get("/api/users", func(c fiber.Ctx) error { return c.SendString("hello") })

	for range 2 {
		res, err := app.Test(httptest.NewRequest("GET", "/api/users", nil))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d %q %q\n", res.StatusCode, res.Header.Get("RateLimit"), res.Header.Get("Retry-After"))
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

	app := fiber.New()
	app.Get("/login", weirfiber.Middleware(guessing), func(c fiber.Ctx) error {
		if c.Query("password") != "secret" {
			return fiber.ErrUnauthorized
		}
		return c.SendStatus(204)
	})
	app.Group("/reports", weirfiber.Middleware(reports)).Get("/", func(c fiber.Ctx) error { return c.SendString("report") })

	for _, target := range []string{"/login?password=secret", "/login?password=a", "/login?password=b", "/login?password=secret", "/reports", "/reports"} {
		res, err := app.Test(httptest.NewRequest("GET", target, nil))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(target, res.StatusCode)
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

	app := fiber.New()
	app.Use(weirfiber.Limit(store, "1/m", weirfiber.ByIP))
	app.Get("/", func(c fiber.Ctx) error { return c.SendString("hello") })

	for range 2 {
		res, err := app.Test(httptest.NewRequest("GET", "/", nil))
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = res.Body.Close()
		fmt.Println(res.StatusCode)
	}
	// Output:
	// 200
	// 429
}

package weirfiber_test

import (
	"bufio"
	"net"
	"testing"

	"github.com/floodweir/weir"
	weirfiber "github.com/floodweir/weir/contrib/fiber"
	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/recover"

	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/httplimit/limittest"
)

func TestAdapter(t *testing.T) {
	limittest.Run(t, limittest.Adapter{HijackedHoldsNoSlot: true, ServeLimit: func(t testing.TB, store weir.Store, limit string) string {
		l := weirfiber.Limit(store, limit, func(c fiber.Ctx) string { return c.Locals("user").(string) })
		return serve(t, func(a *fiber.App) {
			a.Use(func(c fiber.Ctx) error {
				c.Locals("user", c.Get("X-User"))
				return c.Next()
			}, l)
			textRoute(a)
		})
	}, Serve: func(t testing.TB, app limittest.App) string {
		return serve(t, func(a *fiber.App) {
			if app.Recover {
				a.Use(recover.New())
			}
			if app.Protect.Chain != nil {
				a.Use(weirfiber.Protect(app.Protect))
			}
			a.Use(weirfiber.Middleware(app.Limit))
			for _, r := range app.Endpoints {
				if r.Limit != nil {
					a.Use(r.Path, weirfiber.Middleware(r.Limit))
				}
				a.Add([]string{r.Method}, r.Path, func(c fiber.Ctx) error { return write(c, r.Handle()) })
			}
		})
	}})
}

// write sends r.
func write(c fiber.Ctx, r limittest.Response) error {
	for name, value := range r.Header {
		c.Set(name, value)
	}
	if r.Status != 0 {
		c.Status(r.Status)
	}
	switch {
	case r.Hijack != nil:
		c.RequestCtx().Hijack(func(conn net.Conn) { r.Hijack(conn) })
		return nil
	case r.Events != nil:
		return c.SendStreamWriter(func(w *bufio.Writer) {
			for _, e := range r.Events {
				_, _ = w.WriteString(e)
				if w.Flush() != nil {
					return
				}
				r.Flushed()
			}
		})
	case r.Body != "":
		return c.SendString(r.Body)
	}
	return nil
}

// serve returns the URL of an app with routes.
func serve(t testing.TB, routes func(*fiber.App)) string {
	t.Helper()
	return serveConfig(t, fiber.Config{}, routes)
}

func serveConfig(t testing.TB, c fiber.Config, routes func(*fiber.App)) string {
	t.Helper()
	app := fiber.New(c)
	routes(app)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- app.Listener(ln, fiber.ListenConfig{DisableStartupMessage: true}) }()
	t.Cleanup(func() {
		_ = ln.Close()
		<-ended
	})
	return "http://" + ln.Addr().String()
}

// served returns the URL of an app behind m, with routes and GET /text.
func served(t testing.TB, m *httplimit.Middleware, routes func(*fiber.App)) string {
	t.Helper()
	return serve(t, func(app *fiber.App) {
		app.Use(weirfiber.Middleware(m))
		routes(app)
		textRoute(app)
	})
}

func textRoute(app *fiber.App) {
	app.Get("/text", func(c fiber.Ctx) error { return c.SendString("hello") })
}

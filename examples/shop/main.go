// Shop is an online shop in a module of its own, with the flash sale beside it. Its sessions
// identify the buyers of the flash sale. It has the catalogue, takes the money and receives
// webhooks, and imports public packages alone.
//
//	flashsale payments key add default --data data > key
//	openssl rand -hex 32 > token-key
//	SHOP_KEY=$(cat key) go run ./examples/shop -token-key token-key
//	flashsale serve --data data --payments http://127.0.0.1:8090/payments \
//	    --jwt-key token-key --jwt-algorithm HS256 --jwt-issuer shop --jwt-cookie shop_token \
//	    --sign-in http://127.0.0.1:8090/ \
//	    --catalogue http://127.0.0.1:8090/catalogue --catalogue-networks 127.0.0.1 \
//	    --webhook-networks 127.0.0.1
//	flashsale webhook add MERCHANT http://127.0.0.1:8090/webhooks --data data
//
// The last command prints the secret for SHOP_WEBHOOK. Restart the shop with it.
//
// Customers log in with any name and pay in play money.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/floodweir/weir/flashsale/payments/httpform"
	"github.com/floodweir/weir/flashsale/signing"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8090", "the address of the shop")
	flashsale := flag.String("flashsale", "http://127.0.0.1:8088", "the URL of the flash sale")
	tokenKey := flag.String("token-key", "", "the file with the secret that signs tokens of customers, shared with the flash sale")
	flag.Parse()
	key, err := signing.Parse(os.Getenv("SHOP_KEY"))
	if err != nil {
		log.Fatalf("SHOP_KEY: %v", err)
	}
	till := newTill("http://"+*listen, func(ctx context.Context, e event) error {
		return httpform.Report(ctx, http.DefaultClient, *flashsale+"/api/payments/notify/default", e, key)
	})
	var secret []byte
	if *tokenKey != "" {
		if secret, err = os.ReadFile(*tokenKey); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Printf("shop: http://%s, flash sale: %s\n", *listen, *flashsale)
	server := &http.Server{Addr: *listen, Handler: newShop(till, key, os.Getenv("SHOP_WEBHOOK"), login{bytes.TrimSpace(secret), *flashsale}), ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServe())
}

// newShop returns the handler of the shop. secret verifies webhooks; without one they are
// refused.
func newShop(t *till, key signing.Secret, secret string, l login) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/payments/", http.StripPrefix("/payments", httpform.Handler(t, func() []signing.Secret { return []signing.Secret{key} })))
	mux.HandleFunc("GET /pay/{ref}", t.page)
	mux.HandleFunc("POST /pay/{ref}", t.pay)
	mux.HandleFunc("GET /{$}", l.page)
	mux.HandleFunc("POST /login", l.open)
	mux.HandleFunc("POST /webhooks", webhooks(secret))
	mux.HandleFunc("GET /catalogue/products", listProducts(t.url))
	mux.HandleFunc("GET /catalogue/keyboard.png", keyboard)
	return mux
}

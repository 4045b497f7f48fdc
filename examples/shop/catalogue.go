package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"slices"
	"strings"

	"github.com/floodweir/weir/flashsale/catalogue"
)

// products returns the catalogue of the shop at a URL. A real shop has a database.
func products(url string) []catalogue.Product {
	return []catalogue.Product{{
		ID: "keyboard-walnut", Title: catalogue.Text{ZH: "胡桃木键盘", EN: "Walnut keyboard"},
		Description: catalogue.Text{ZH: "热插拔轴，胡桃木外壳。", EN: "Hot-swap switches in a case of walnut."},
		Images:      []catalogue.Image{{URL: url + "/catalogue/keyboard.png", Alt: catalogue.Text{ZH: "键盘", EN: "A keyboard"}}},
		ListPrice:   39900, Currency: "CNY",
		Variants: []catalogue.Variant{{SKU: "keyboard-walnut", Name: catalogue.Text{ZH: "标准版", EN: "Standard"}, Price: 39900}},
	}}
}

// listProducts returns the products with the IDs in the query. An unchanged response has no body.
func listProducts(url string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ids := strings.Split(r.URL.Query().Get("ids"), ",")
		found := slices.DeleteFunc(products(url), func(p catalogue.Product) bool { return !slices.Contains(ids, p.ID) })
		body, err := json.Marshal(found)
		if err != nil {
			http.Error(w, "the catalogue is unavailable", http.StatusInternalServerError)
			return
		}
		sum := sha256.Sum256(body)
		tag := `"` + hex.EncodeToString(sum[:8]) + `"`
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body) // the client may be gone
	}
}

// keyboard draws the picture of the product.
func keyboard(w http.ResponseWriter, _ *http.Request) {
	m := image.NewRGBA(image.Rect(0, 0, 1280, 720))
	for y := range 720 {
		for x := range 1280 {
			m.Set(x, y, color.RGBA{R: 96, G: 64, B: 40, A: 255})
			if x%120 > 16 && y%120 > 16 && y > 120 && y < 600 {
				m.Set(x, y, color.RGBA{R: 236, G: 230, B: 220, A: 255})
			}
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		http.Error(w, "the picture is unavailable", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "image/png")
	_, _ = w.Write(b.Bytes()) // the client may be gone
}

package catalogue

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	_ "image/png" // decodes PNG
	"net/http"

	"github.com/floodweir/weir/flashsale/sale"
	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // decodes WebP
)

const (
	// MaxBytes bounds a picture as it is uploaded.
	MaxBytes = 5 << 20

	maxPixels = 40_000_000
	quality   = 82
)

// widths lists the widths at which pictures are stored.
var widths = []int{375, 750, 1280}

// Size is one size of a picture.
type Size struct {
	Width, Height int
	Kind          string // the Content-Type
	Body          []byte
}

// Encode decodes a picture and returns its hash and its sizes, the smallest first. It enlarges
// nothing. An error wraps sale.ErrInvalid.
func Encode(body []byte) (hash string, sizes []Size, err error) {
	invalid := func(got, want string) error { return &sale.FieldError{Field: "image", Value: got, Want: want} }
	if len(body) == 0 || len(body) > MaxBytes {
		return "", nil, invalid(fmt.Sprintf("%d bytes", len(body)), fmt.Sprintf("1 to %d", MaxBytes))
	}
	const want = "a JPEG, PNG or WebP picture"
	config, _, err := image.DecodeConfig(bytes.NewReader(body))
	if err != nil {
		return "", nil, invalid(http.DetectContentType(body), want)
	}
	if config.Width < 1 || config.Height < 1 || config.Width > maxPixels/config.Height {
		return "", nil, invalid(fmt.Sprintf("%d × %d pixels", config.Width, config.Height), fmt.Sprintf("up to %d pixels", maxPixels))
	}
	source, _, err := image.Decode(bytes.NewReader(body))
	if err != nil {
		return "", nil, invalid(fmt.Sprintf("a damaged file: %.80q", err.Error()), want)
	}
	sum := sha256.Sum256(body)
	for _, w := range widths {
		w = min(w, source.Bounds().Dx())
		if n := len(sizes); n > 0 && sizes[n-1].Width == w {
			break
		}
		h := max(1, source.Bounds().Dy()*w/source.Bounds().Dx())
		if h > 8*w {
			return "", nil, invalid(fmt.Sprintf("%d × %d pixels", config.Width, config.Height), "at most eight times as high as wide")
		}
		to := image.NewRGBA(image.Rect(0, 0, w, h))
		draw.Draw(to, to.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src) // below transparent parts
		draw.CatmullRom.Scale(to, to.Bounds(), source, source.Bounds(), draw.Over, nil)
		var b bytes.Buffer
		if err := jpeg.Encode(&b, to, &jpeg.Options{Quality: quality}); err != nil {
			return "", nil, fmt.Errorf("catalogue: encode: %w", err)
		}
		sizes = append(sizes, Size{Width: w, Height: h, Kind: "image/jpeg", Body: b.Bytes()})
	}
	return hex.EncodeToString(sum[:16]), sizes, nil
}

// pictureOf describes the sizes of a picture.
func pictureOf(hash string, sizes []Size, alt Text) Picture {
	p := Picture{Hash: hash, Height: sizes[len(sizes)-1].Height, Alt: alt}
	for _, s := range sizes {
		p.Widths = append(p.Widths, s.Width)
	}
	return p
}

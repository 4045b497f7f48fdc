package consoletest_test

import (
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir/e2e/browsertest"
	"github.com/floodweir/weir/e2e/consoletest"
)

// maxPicture is the largest size of a picture in docs/console, in bytes.
const maxPicture = 80 << 10

// pictures has those of docs/console, from example data.
var pictures = []struct {
	name, page, ready string
	device            browsertest.Device
	prepare           func(p *browsertest.Page)
}{
	{"overview", "overview", `document.querySelectorAll("tr.flag").length > 1`, browsertest.Device{Height: 800}, nil},
	{"policy-dark", "policy?name=login&threshold=12%2Fm", `document.querySelector(".estimate").textContent.includes("Would deny")`, browsertest.Device{Height: 800, Dark: true}, nil},
	{"key-375-zh", "key?policy=login", `document.querySelector(".wide-trend")`, browsertest.Device{Width: 375, Height: 720, Lang: "zh-CN"}, func(p *browsertest.Page) {
		p.Fill("input[data-search]", "203.0.113.9")
		p.Click("form button.primary")
	}},
	{"edit-375-dark", "edit?policy=login&limits=12/m", `document.querySelector(".diff .add")`, browsertest.Device{Width: 375, Height: 720, Dark: true}, func(p *browsertest.Page) {
		p.Await(`document.querySelector(".diff .add")`)
		p.Do(`document.querySelector("#validity").scrollIntoView()`)
	}},
}

// testPictures renews the pictures in the directory WEIR_SHOTS. It needs a font with Chinese characters:
//
//	WEIR_SHOTS=$PWD/docs/console go test ./e2e/consoletest -run TestConsole/Pictures
func (s *suite) testPictures(t *testing.T) {
	dir := os.Getenv("WEIR_SHOTS")
	if dir == "" {
		return // other tests open these pages
	}
	for _, one := range pictures {
		t.Run(one.name, func(t *testing.T) {
			_, p := s.open(t, one.page, consoletest.Options{}, one.device)
			p.Await(`document.querySelector(".tools .live.live")`)
			if one.prepare != nil {
				one.prepare(p)
			}
			p.Await(one.ready)
			file := filepath.Join(dir, one.name+".png")
			p.Screenshot(file)
			compress(t, file)
		})
	}
}

// compress writes a picture again, with its 256 most frequent colours and the best compression.
func compress(t *testing.T, file string) {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	picture, err := png.Decode(in)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(out, withPalette(picture)); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// withPalette returns a picture whose rare colours, those of the edges of letters, are the nearest of
// the 256 most frequent ones that differ.
func withPalette(picture image.Image) image.Image {
	at, count := picture.Bounds(), map[color.Color]int{}
	for y := at.Min.Y; y < at.Max.Y; y++ {
		for x := at.Min.X; x < at.Max.X; x++ {
			count[picture.At(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int {
		return cmp.Or(count[b]-count[a], strings.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	var palette color.Palette
	for _, c := range colors {
		if len(palette) < 256 && (len(palette) == 0 || distance(c, palette.Convert(c)) > 6) {
			palette = append(palette, c)
		}
	}
	small := image.NewPaletted(at, palette)
	index := map[color.Color]uint8{}
	for c := range count {
		index[c] = uint8(small.Palette.Index(c))
	}
	for y := at.Min.Y; y < at.Max.Y; y++ {
		for x := at.Min.X; x < at.Max.X; x++ {
			small.SetColorIndex(x, y, index[picture.At(x, y)])
		}
	}
	return small
}

// distance returns the largest difference of two colours in red, green or blue, of 255.
func distance(a, b color.Color) int {
	r, g, bl, _ := a.RGBA()
	r2, g2, bl2, _ := b.RGBA()
	most := 0
	for _, d := range []int{int(r>>8) - int(r2>>8), int(g>>8) - int(g2>>8), int(bl>>8) - int(bl2>>8)} {
		most = max(most, d, -d)
	}
	return most
}

// TestPictures checks that the pictures of the documentation exist and are small.
func TestPictures(t *testing.T) {
	t.Parallel()
	for _, one := range pictures {
		info, err := os.Stat(filepath.Join("../../docs/console", one.name+".png"))
		if err != nil || info.Size() > maxPicture {
			t.Errorf("%s: %v, %v, want at most %d bytes", one.name, info, err, maxPicture)
		}
	}
}

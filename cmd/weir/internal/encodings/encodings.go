// Package encodings decodes the content encodings br and zstd of responses.
package encodings

import (
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// maxWindow is the largest window of zstd, which RFC 9659 allows for HTTP. It bounds the memory of
// a decoder. The window of brotli has at most 16 MiB.
const maxWindow = 8 << 20

// Decoders returns the decoders of this package by encoding.
func Decoders() map[string]func(io.Reader) (io.ReadCloser, error) {
	return map[string]func(io.Reader) (io.ReadCloser, error){
		"br": func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(brotli.NewReader(r)), nil },
		"zstd": func(r io.Reader) (io.ReadCloser, error) {
			d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
			if err != nil {
				return nil, err
			}
			return d.IOReadCloser(), nil
		},
	}
}

package weirgrpc_test

import (
	"testing"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	weirgrpc "github.com/floodweir/weir/contrib/grpc"
)

// FuzzRetryAfter checks that a retry delay is positive, for any error.
func FuzzRetryAfter(f *testing.F) {
	for _, d := range []time.Duration{0, -1, 1, time.Minute, 1<<63 - 1} {
		b, err := proto.Marshal(status.Convert(denial(codes.ResourceExhausted, d)).Proto())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var st spb.Status
		if proto.Unmarshal(b, &st) != nil {
			return
		}
		d, ok := weirgrpc.RetryAfter(status.FromProto(&st).Err())
		if ok != (d > 0) {
			t.Errorf("RetryAfter = %v %v", d, ok)
		}
	})
}

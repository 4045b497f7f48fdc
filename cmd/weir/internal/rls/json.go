package rls

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/enforce"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// MaxMessage is the maximum size of a request in bytes.
const MaxMessage = 1 << 20

// JSON serves POST /json: a RateLimitRequest as request and a RateLimitResponse as
// response, both in the JSON of protocol buffers. The status is 200, or 429 if the
// request is over a limit, 400 for an invalid request, and 500 if the store made no
// decision.
func (s *Server) JSON() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "want POST with a RateLimitRequest in JSON", http.StatusMethodNotAllowed)
			return
		}
		body, err := problem.ReadBody(w, r, MaxMessage)
		if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
			http.Error(w, "want a body of at most 1 MiB", http.StatusRequestEntityTooLarge)
			return
		}
		if err != nil {
			http.Error(w, "request body not received", http.StatusBadRequest)
			return
		}
		var request pb.RateLimitRequest
		if err := protojson.Unmarshal(body, &request); err != nil {
			http.Error(w, "want a RateLimitRequest in JSON: "+err.Error(), http.StatusBadRequest)
			return
		}
		response, err := s.ShouldRateLimit(r.Context(), &request)
		if err != nil {
			reason := status.Convert(err)
			to := http.StatusInternalServerError
			if reason.Code() == codes.InvalidArgument {
				to = http.StatusBadRequest
			}
			if errors.Is(err, weir.ErrOverloaded) {
				problem.SetRetryAfter(w.Header(), enforce.RetryAfter(err))
				to = http.StatusServiceUnavailable
			}
			http.Error(w, reason.Message(), to)
			return
		}
		text, err := protojson.Marshal(response)
		var answer bytes.Buffer
		if err == nil {
			err = json.Compact(&answer, text) // protojson adds random spaces
		}
		if err != nil {
			http.Error(w, "response not encoded as JSON: "+err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if response.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = w.Write(answer.Bytes()) // fails only if the client disconnected
	})
}

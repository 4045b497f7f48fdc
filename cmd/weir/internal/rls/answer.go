package rls

import (
	"fmt"
	"math"
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// answer returns the response for a decision.
func (s *Server) answer(r *pb.RateLimitRequest, d *decision) *pb.RateLimitResponse {
	response, statuses, resets := messages(len(d.checks))
	response.OverallCode = code(d.admitted || s.c.Shadow)
	// One message for consecutive checks of a limit, also of another request.
	for i := range d.checks {
		a := &d.checks[i]
		if a.limit != nil && a.limit != d.described && !a.limit.Unlimited {
			d.described, d.description = a.limit, current(a.limit)
		}
		describe(&statuses[i], a, d.description, &resets[i], d.at)
		response.Statuses[i] = &statuses[i]
	}
	if s.c.ResponseHeaders {
		response.ResponseHeadersToAdd = s.headers(d, response.Statuses)
	}
	if s.c.DynamicMetadata {
		response.DynamicMetadata = metadata(r, d)
	}
	return response
}

// messages returns the messages of a response with n statuses, in few allocations.
func messages(n int) (*pb.RateLimitResponse, []pb.RateLimitResponse_DescriptorStatus, []durationpb.Duration) {
	if n == 1 {
		var one struct {
			response pb.RateLimitResponse
			pointer  [1]*pb.RateLimitResponse_DescriptorStatus
			status   [1]pb.RateLimitResponse_DescriptorStatus
			reset    [1]durationpb.Duration
		}
		one.response.Statuses = one.pointer[:]
		return &one.response, one.status[:], one.reset[:]
	}
	response := &pb.RateLimitResponse{Statuses: make([]*pb.RateLimitResponse_DescriptorStatus, n)}
	return response, make([]pb.RateLimitResponse_DescriptorStatus, n), make([]durationpb.Duration, n)
}

func code(ok bool) pb.RateLimitResponse_Code {
	if ok {
		return pb.RateLimitResponse_OK
	}
	return pb.RateLimitResponse_OVER_LIMIT
}

// describe sets the status of one descriptor, whose limit, if it has one, is described. It uses until
// for the time until the reset.
func describe(to *pb.RateLimitResponse_DescriptorStatus, a *check, described *pb.RateLimitResponse_RateLimit, until *durationpb.Duration, now time.Time) {
	switch {
	case a.limit == nil:
		to.Code = pb.RateLimitResponse_OK
		return
	case a.limit.Unlimited:
		to.Code, to.LimitRemaining = pb.RateLimitResponse_OK, math.MaxUint32
		return
	}
	to.Code = code(a.ok || a.role == shadow)
	to.CurrentLimit = described
	to.LimitRemaining = uint32(min(a.decision.Remaining, math.MaxUint32))
	until.Seconds, to.DurationUntilReset = seconds(reset(a, now)), until
}

// units lists the units, longest first.
var units = []struct {
	length time.Duration
	unit   pb.RateLimitResponse_RateLimit_Unit
}{
	{365 * 24 * time.Hour, pb.RateLimitResponse_RateLimit_YEAR},
	{30 * 24 * time.Hour, pb.RateLimitResponse_RateLimit_MONTH},
	{7 * 24 * time.Hour, pb.RateLimitResponse_RateLimit_WEEK},
	{24 * time.Hour, pb.RateLimitResponse_RateLimit_DAY},
	{time.Hour, pb.RateLimitResponse_RateLimit_HOUR},
	{time.Minute, pb.RateLimitResponse_RateLimit_MINUTE},
	{time.Second, pb.RateLimitResponse_RateLimit_SECOND},
}

// current describes a limit. A window that is not a unit becomes a multiple of one; one
// that is not a multiple of a second has no unit.
func current(l *ratelimit.Limit) *pb.RateLimitResponse_RateLimit {
	c := &pb.RateLimitResponse_RateLimit{Name: l.Name, RequestsPerUnit: l.RequestsPerUnit}
	for _, u := range units {
		if l.Window%u.length != 0 {
			continue
		}
		c.Unit = u.unit
		if n := l.Window / u.length; n > 1 {
			c.UnitMultiplier = wrapperspb.UInt32(uint32(min(n, math.MaxUint32)))
		}
		break
	}
	return c
}

// reset returns the time until the limit of a is complete again. A fixed window is
// complete at its end, another limit that denies when the request would be admitted, and
// every other when nothing is used.
func reset(a *check, now time.Time) time.Duration {
	d := &a.decision
	if !d.At.IsZero() {
		now = d.At
	}
	if a.limit.Limit.IsZero() || a.limit.Limit.Algorithm() == "fixed_window" {
		if d.ResetAfter > 0 {
			return d.ResetAfter
		}
		window := a.limit.Window.Microseconds()
		return time.Duration(window-now.UnixMicro()%window) * time.Microsecond
	}
	if !a.ok && d.RetryAfter != weir.Never {
		return d.RetryAfter
	}
	return d.ResetAfter
}

// seconds returns d in whole seconds, rounded up.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// headers returns the fields for the limit that is nearest to its end: the last of those
// that deny, else the one with the least remaining.
func (s *Server) headers(d *decision, statuses []*pb.RateLimitResponse_DescriptorStatus) []*core.HeaderValue {
	var nearest *pb.RateLimitResponse_DescriptorStatus
	least := uint32(math.MaxUint32)
	for i, one := range statuses {
		if one.CurrentLimit == nil {
			continue
		}
		if one.LimitRemaining < least {
			nearest, least = one, one.LimitRemaining
		}
		if a := &d.checks[i]; !a.ok && a.role == enforced {
			nearest, least = one, 0
		}
	}
	if nearest == nil {
		return nil
	}
	header := func(name string, n int64) *core.HeaderValue {
		return &core.HeaderValue{Key: name, Value: strconv.FormatInt(n, 10)}
	}
	return []*core.HeaderValue{
		header(s.c.Headers[0], int64(nearest.CurrentLimit.RequestsPerUnit)),
		header(s.c.Headers[1], int64(nearest.LimitRemaining)),
		header(s.c.Headers[2], nearest.DurationUntilReset.GetSeconds()),
	}
}

// metadata returns the request, and the metadata of the limits that admitted it.
func metadata(r *pb.RateLimitRequest, d *decision) *structpb.Struct {
	all := map[string]any{"domain": r.GetDomain()}
	var descriptors []any
	for _, from := range r.GetDescriptors() {
		var entries []any
		for _, e := range from.GetEntries() {
			entries = append(entries, e.GetKey()+"="+e.GetValue())
		}
		one := map[string]any{"entries": entries}
		if l := from.GetLimit(); l != nil {
			one["limit"] = fmt.Sprintf("requests_per_unit:%d unit:%s", l.GetRequestsPerUnit(), l.GetUnit())
		}
		if h := from.GetHitsAddend(); h != nil {
			one["hitsAddend"] = float64(h.GetValue())
		}
		descriptors = append(descriptors, one)
	}
	all["descriptors"] = descriptors
	if h := r.GetHitsAddend(); h != 0 {
		all["hitsAddend"] = float64(h)
	}
	passed := map[string]any{}
	for i := range d.checks {
		a := &d.checks[i]
		if a.limit != nil && !a.limit.Unlimited && a.match.Descriptor != nil && (a.ok || a.role == shadow) {
			merge(passed, a.match.Descriptor.Metadata)
		}
	}
	if len(passed) > 0 {
		all["metadata"] = passed
	}
	made, err := structpb.NewStruct(all)
	if err != nil {
		return nil // invalid UTF-8, which neither protocol accepts
	}
	return made
}

// merge adds the entries of from that into does not have, also within maps.
func merge(into, from map[string]any) {
	for k, v := range from {
		there, known := into[k]
		if !known {
			if m, ok := v.(map[string]any); ok {
				own := map[string]any{}
				merge(own, m) // do not modify the configuration
				v = own
			}
			into[k] = v
			continue
		}
		a, ok := there.(map[string]any)
		b, both := v.(map[string]any)
		if ok && both {
			merge(a, b)
		}
	}
}

package weirgrpc

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/rpclimit"
)

// describe returns the response fields of decisions.
func (s *Server) describe(items []httplimit.Item, degraded weir.FailMode) http.Header {
	h := http.Header{}
	s.c.Fields.Set(h, items...)
	s.c.Fields.SetDegraded(h, degraded)
	return h
}

// metadataOf returns h as metadata, nil if it is empty.
func metadataOf(h http.Header) metadata.MD {
	if len(h) == 0 {
		return nil
	}
	md := make(metadata.MD, len(h))
	for name, values := range h {
		md[strings.ToLower(name)] = values
	}
	return md
}

// refusal returns the trailers and the error of a call that p did not admit.
func (s *Server) refusal(ctx context.Context, p *enforce.Admission) (metadata.MD, error) {
	items, degraded := httplimit.Items(nil, p)
	h, end := s.describe(items, degraded), rpclimit.Refuse(ctx, p, s.c.RetryJitter)
	end.SetHeader(h, true)
	return metadataOf(h), errorOf(end, items...)
}

// rejection returns the trailers and the error of a call that a protection rejected.
func rejection(e *rpclimit.End) (metadata.MD, error) {
	h := http.Header{}
	e.SetHeader(h, true)
	return metadataOf(h), errorOf(*e)
}

// errorOf returns e as a status error, with the items that denied the call.
func errorOf(e rpclimit.End, items ...httplimit.Item) error {
	st := status.New(codes.Code(e.Code), e.Err.Error())
	var details []protoadapt.MessageV1
	quota := &errdetails.QuotaFailure{}
	for _, it := range items {
		if !it.Decision.OK {
			quota.Violations = append(quota.Violations, &errdetails.QuotaFailure_Violation{Subject: it.Name, Description: "denied by policy " + it.Name})
		}
	}
	if len(quota.Violations) > 0 {
		details = append(details, quota)
	}
	if e.Protection != "" {
		details = append(details, &errdetails.ErrorInfo{Reason: rpclimit.ReasonProtection, Domain: rpclimit.Domain, Metadata: map[string]string{"protection": e.Protection}})
	}
	if e.Retry != weir.Never {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.Retry)})
	}
	if with, err := st.WithDetails(details...); err == nil { // what cannot be marshalled is left out
		st = with
	}
	return st.Err()
}

package weirconnect

import (
	"context"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/rpclimit"
)

// describe sets the response fields of decisions.
func (s *Server) describe(h http.Header, items []httplimit.Item, degraded weir.FailMode) {
	s.c.Fields.Set(h, items...)
	s.c.Fields.SetDegraded(h, degraded)
}

// refusal returns the error of a call that p did not admit.
func (s *Server) refusal(ctx context.Context, p *enforce.Admission, protocol string) error {
	items, degraded := httplimit.Items(nil, p)
	end := rpclimit.Refuse(ctx, p, s.c.RetryJitter)
	err := errorOf(end, items...)
	s.describe(err.Meta(), items, degraded)
	end.SetHeader(err.Meta(), protocol != connect.ProtocolConnect) // the Connect protocol has no retries
	return err
}

// rejection returns the error of a call that a protection rejected.
func rejection(e *rpclimit.End, protocol string) error {
	err := errorOf(*e)
	e.SetHeader(err.Meta(), protocol != connect.ProtocolConnect)
	return err
}

// errorOf returns e as a Connect error, with the items that denied the call.
func errorOf(e rpclimit.End, items ...httplimit.Item) *connect.Error {
	err := connect.NewError(connect.Code(e.Code), e.Err)
	add := func(m proto.Message) {
		if detail, bad := connect.NewErrorDetail(m); bad == nil { // what cannot be marshalled is left out
			err.AddDetail(detail)
		}
	}
	quota := &errdetails.QuotaFailure{}
	for _, it := range items {
		if !it.Decision.OK {
			quota.Violations = append(quota.Violations, &errdetails.QuotaFailure_Violation{Subject: it.Name, Description: "denied by policy " + it.Name})
		}
	}
	if len(quota.Violations) > 0 {
		add(quota)
	}
	if e.Protection != "" {
		add(&errdetails.ErrorInfo{Reason: rpclimit.ReasonProtection, Domain: rpclimit.Domain, Metadata: map[string]string{"protection": e.Protection}})
	}
	if e.Retry != weir.Never {
		add(&errdetails.RetryInfo{RetryDelay: durationpb.New(e.Retry)})
	}
	return err
}

// Package rpclimit contains what interceptors of RPC frameworks share: how a denied call ends,
// and how a client keeps to a budget and to the pauses that servers ask for. It knows no
// protocol; contrib/grpc and contrib/connect are made of it.
//
//	calls, messages, err := rpclimit.NewEnforcers(store, policies, rpclimit.ServerConfig{})
//	…
//	if !calls.Enter(ctx, attributes, &admission).Passes() {
//		end := rpclimit.Refuse(ctx, &admission, jitter)
//		end.SetHeader(metadata, true)
//		return status.Error(codes.Code(end.Code), end.Err.Error())
//	}
//
// # Errors
//
// Errors of the New functions wrap weir.ErrInvalid.
package rpclimit

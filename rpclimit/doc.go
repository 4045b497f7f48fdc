// Package rpclimit is what doors of remote procedure calls share: how a call ends that
// may not pass, and how a client keeps to a budget and to what servers say. It knows no
// protocol; contrib/grpc and contrib/connect are doors made of it.
//
//	calls, messages, err := rpclimit.Gates(store, policies, nil, gate.Config{})
//	…
//	if !calls.Enter(ctx, attributes, &pass).Passes() {
//		end := rpclimit.Refuse(ctx, &pass, jitter)
//		end.Tell(metadata, true)
//		return status.Error(codes.Code(end.Code), end.Err.Error())
//	}
//
// # Errors
//
// What New functions refuse wraps weir.ErrInvalid and names no package, which the door
// puts in front of it.
package rpclimit

package grpc

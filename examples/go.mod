module github.com/floodweir/weir/examples

go 1.26.0

require (
	github.com/ThreeDotsLabs/watermill v1.5.1
	github.com/floodweir/weir v0.0.0
	github.com/floodweir/weir/contrib/rueidis v0.0.0
	github.com/floodweir/weir/weirfile v0.0.0
	github.com/go-chi/chi/v5 v5.5.0
)

require (
	cel.dev/cel-go v0.33.2 // indirect
	cel.dev/expr v0.25.3 // indirect
	github.com/antlr4-go/antlr/v4 v4.13.1 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/lithammer/shortuuid/v3 v3.0.7 // indirect
	github.com/oklog/ulid v1.3.1 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	golang.org/x/exp v0.0.0-20260824195058-e88cd73687aa // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20261012220534-4341edf3f941 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261019180522-ce908d29299b // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace github.com/floodweir/weir => ../

replace github.com/floodweir/weir/contrib/rueidis => ../contrib/rueidis

replace github.com/floodweir/weir/contrib/failsafe => ../contrib/failsafe

replace github.com/floodweir/weir/contrib/grpc => ../contrib/grpc

replace github.com/floodweir/weir/weirfile => ../weirfile

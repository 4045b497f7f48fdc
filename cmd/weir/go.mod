module github.com/floodweir/weir/cmd/weir

go 1.26.0

require (
	github.com/floodweir/weir v0.0.0
	github.com/floodweir/weir/contrib/rueidis v0.0.0
	github.com/floodweir/weir/weirfile v0.0.0
	github.com/rogpeppe/go-internal v1.16.0
	github.com/spf13/cobra v1.10.2
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/tools v0.26.0 // indirect
)

replace (
	github.com/floodweir/weir => ../..
	github.com/floodweir/weir/contrib/rueidis => ../../contrib/rueidis
	github.com/floodweir/weir/weirfile => ../../weirfile
)

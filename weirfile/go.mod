module github.com/floodweir/weir/weirfile

go 1.25.0

require (
	github.com/floodweir/weir v0.0.0
	go.yaml.in/yaml/v4 v4.0.0
)

require cel.dev/cel-go v0.33.2 // indirect

replace github.com/floodweir/weir => ../

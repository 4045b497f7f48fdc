module github.com/floodweir/weir/contrib/orchestrion

go 1.26.0

require github.com/floodweir/weir v0.0.0

replace github.com/floodweir/weir => ../../

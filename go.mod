module github.com/floodweir/weir

go 1.25.0

module github.com/floodweir/weir/e2e

go 1.26.0

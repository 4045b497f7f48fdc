module github.com/floodweir/weir/contrib/echo

go 1.26.0

require (
	github.com/floodweir/weir v0.0.0
	github.com/labstack/echo/v5 v5.3.1
)

require (
	github.com/stretchr/testify v1.12.1 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)

replace github.com/floodweir/weir => ../../

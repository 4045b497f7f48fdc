module github.com/floodweir/weir/contrib/echo

go 1.26.0

require (
	github.com/floodweir/weir v0.0.0
	github.com/labstack/echo/v5 v5.3.1
)

require golang.org/x/time v0.15.0 // indirect

replace github.com/floodweir/weir => ../../

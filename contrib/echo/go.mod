module github.com/floodweir/weir/contrib/echo

go 1.26.0

require github.com/labstack/echo/v5 v5.3.1

replace github.com/floodweir/weir => ../../

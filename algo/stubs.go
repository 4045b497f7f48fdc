package algo

import "errors"

// Replaced one by one as the real files arrive.
var errStub = errors.New("not built yet")


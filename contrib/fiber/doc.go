package fiber

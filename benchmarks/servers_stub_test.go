package benchmarks

var serverPeers []struct{ module, version string }

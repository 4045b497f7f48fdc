package plainhttp

// Requests are requests of which some are plain.
var Requests = requests

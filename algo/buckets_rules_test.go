package algo_test

// bucketRules are the rules that refill.
var bucketRules = []namedRule{}

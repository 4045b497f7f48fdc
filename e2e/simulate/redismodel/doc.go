// Package redismodel is a model of Redis for simulations: the commands that Weir's script
// uses, and a Lua virtual machine that runs the script itself. It has no goroutine, timer or
// randomness, so the same commands at the same times give the same replies.
//
// The model has what a limit depends on: the clock of the server, TTLs in milliseconds, and the
// numbers of Lua 5.1. It also has cached scripts, replication with a lag, slots of a cluster
// that move, and eviction. It does not have persistence, memory limits, transactions, or
// replies of types that the script does not use.
package redismodel

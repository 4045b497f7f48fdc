// Package model is a Store that is slow and plainly right: every other store is
// compared with it.
//
// It is written from the documentation of limits, not from package algo, of
// which it uses only the types Ask and Result. Where a rule of algo is clever,
// its twin here is naive: a bucket holds an exact number of tokens instead of an
// arrival time, a window holds a list of every admission instead of counters, a
// calendar is found by stepping hours. Batches are all or nothing because
// everything is copied before and put back after.
//
// # Concurrency
//
// One lock stands around everything.
package model

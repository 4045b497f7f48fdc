// Package model is a slow and simple weir.Store, with which every other store is
// compared.
//
// It is written from the documentation of limits, not from package algo, of which it
// uses only the types Ask and Result. It prefers the simplest representation. A bucket
// holds an exact number of tokens instead of an arrival time. A window holds a list of
// all admissions instead of counters. A calendar is found in steps of hours. A batch is
// all or nothing because everything is copied before it and restored after it.
//
// # Concurrency
//
// One mutex guards everything.
package model

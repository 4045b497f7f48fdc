package meminventory

import (
	"sync"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// A command asks the goroutine of a sale for one thing.
type command struct {
	op    op
	epoch int64

	// What is asked: the fields that its op needs.
	join    sale.JoinRequest
	ask     sale.ReserveRequest
	opening *sale.InitialState
	entries []sale.Entry
	user    string
	id      string // of a reservation, or a batch
	ids     []string
	n       int64
	flag    bool
	until   time.Time

	// What is answered.
	standing sale.TicketStatus
	outcome  sale.ReserveResult
	counts   sale.Counts
	out      []sale.Entry
	number   int
	yes      bool
	wake     <-chan struct{}
	err      error

	done chan struct{} // gets one when it is answered
}

type op uint8

const (
	opOpen op = iota
	opClose
	opPause
	opStock
	opPaid
	opJoin
	opLook
	opAdmit
	opReserve
	opReturn
	opCount
	opAdopt // gives the entries of an earlier process's stream
	opNext
	opHas // says whether there is a stream
	opDone
	opDrop
)

// commands keeps commands that were answered. One whose caller went away before the answer
// is not put back.
type commands struct{ pool sync.Pool }

func (cs *commands) get(op op, epoch int64) *command {
	c, ok := cs.pool.Get().(*command)
	if !ok {
		c = &command{done: make(chan struct{}, 1)}
	}
	c.op, c.epoch = op, epoch
	return c
}

func (cs *commands) put(c *command) {
	*c = command{done: c.done}
	cs.pool.Put(c)
}

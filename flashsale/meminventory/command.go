package meminventory

import (
	"sync"

	"github.com/floodweir/weir/flashsale/sale"
)

// command is one call to the goroutine of a sale.
type command struct {
	op    op
	epoch int64

	// Arguments: the fields that op needs.
	join     sale.JoinRequest
	poll     sale.PollRequest
	reserve  sale.ReserveRequest
	transfer sale.Reservation
	initial  *sale.InitialState
	terms    sale.Terms
	entries  []sale.Entry
	user     string
	id       string // of a reservation
	ids      []string
	n        int64
	flag     bool

	// Results.
	status   sale.TicketStatus
	result   sale.ReserveResult
	counts   sale.Counts
	out      []sale.Entry
	returned bool // of opReturn and opTransfer
	wake     <-chan struct{}
	err      error

	done chan struct{} // receives one value when the command is complete
}

type op uint8

const (
	opOpen op = iota
	opClose
	opPause
	opStock
	opTerms
	opPaid
	opJoin
	opPoll
	opStatus
	opReserve
	opTransfer
	opReturn
	opCounts
	opRestore // sets the entries of an earlier process's stream
	opNext
	opHasStream // checks that there is a stream
	opAck
	opDelete
)

// commands reuses completed commands. A command whose caller has returned before completion is
// not reused.
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

// Package fleet is a discrete-event model of a serving fleet: workers with a GPU
// queue, chunked prefill and a block cache each, a shared store, and one link
// between them that all transfers share. It runs requests under a decider that
// it is given, replays legs inside the same traffic, and knows what no real fleet
// does: how long each request would have taken on the path not taken.
//
// It is pure. The same Config, requests and decider give the same outcomes bit
// for bit. Durations are seconds (float64), sizes are tokens, blocks or bytes, and
// instants are seconds after the run's start.
//
// What happens to one request: it is decided at its arrival; a fetch starts its
// transfer T0 later; the request joins its worker's GPU queue at once (Hop later on
// another worker). The GPU takes the first in order of arrival whose state is
// there. One that waits for a transfer is passed over and has a slot again at the
// next chunk boundary after its state is there. Restoring and prefill then occupy
// the GPU, and the first token ends the request's part here; its decode goes on,
// slows later prefills a little and is held up by them.
//
// Effects that a fitted cost model lacks are meant to be here: background traffic
// on the link, unequal shares, interference with decoding, chunk residuals.
package fleet

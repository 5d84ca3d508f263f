// Package live is a small fleet of real llama.cpp servers on this machine, with a
// coordinator in front: requests of conversations with shared prefixes come at
// their times, each is decided among its candidates, runs, and is written as a
// contract span with the stages that were observed. Its executor runs legs on the
// same servers, in slots of their own.
//
// A worker serves its requests in the order of their decisions, one at a time, and
// holds its turn for a transfer that is late; so the GPU queue and the exposed
// stall are those of the cost model. The worker's one thread is its GPU. The
// policies and the prior are those of the simulated fleet.
package live

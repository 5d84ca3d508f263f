// Package engine measures on real llama.cpp servers what replays cost production:
// blocks of live traffic with and without a replayer beside it take turns, in
// random order within a pair. Both blocks of a pair are the same requests at the
// same times upon empty caches, so that what differs is the replays and the
// machine's noise; and each such stream serves two pairs, so that the blocks
// without replays can be held against each other: that ratio is the noise.
//
// The replayer is the program's: its runner with its ledger, gate and breaker, over
// the executor of llama.cpp. Only its way to the decisions is shorter: they come
// from memory, not from Kafka.
package engine

// Package sample decides which decisions are replayed, on which path not taken,
// and with which probability. It is pure: a draw is a function of the plan, its
// secret salt and the recorded decision, so it can be repeated at any time, and
// a restart draws the same legs again.
//
// A decision is sampled with a rate that its stratum fixes; a sampled decision
// then draws one of the other path kinds that it had a candidate for, so that
// every ordered pair of paths has support. The inclusion probability of
// alternative b is π(b) = rate · P(b | sampled). A control leg, which runs the
// chosen path again, has a draw and a probability of its own. No probability is
// ever zero. A plan never changes: adapting makes the next version, with another
// id.
package sample

// Package replay runs, for a sample of past decisions, the path that was not
// taken, so that it can be compared with the one that was.
//
// A Runner takes decisions as they come (Offer: draw by the plan, charge the
// budget, make durable), and results as they are had (Finish: settle, make
// durable, emit as a replay part). Run is the live loop over the two, with
// bounded concurrency, a deadline and a kill switch; a simulation in lockstep
// calls Offer and Finish itself, at its own instants.
//
// A restart neither repeats nor forgets. Draws are a function of the record; a
// leg is in the Store before the offset of its decision is committed, its result
// before it is emitted. What a crash can repeat is the run of a leg that had no
// result yet, and an emission, which carries the identifiers of the leg.
package replay

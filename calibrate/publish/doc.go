// Package publish assembles, signs and stores coefficient documents.
//
// The store only appends, and has no compare-and-set, so publications are ordered
// by claims. A publisher inserts a claim on the next revision and reads it back: it
// holds the revision if it finds no other claim there, else it voids its own and
// begins again. Only a holder inserts a document, so at most one document has a
// revision; readers look at documents alone, and never see a claim. While a claim
// is held others wait for it; one that its publisher left behind is passed over
// after ClaimLife, and a document that comes after that is refused to its
// publisher as superseded. This needs reads that follow writes: on a replicated
// table the statements ask for a quorum and sequential consistency.
package publish

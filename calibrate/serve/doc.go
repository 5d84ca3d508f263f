// Package serve gives coefficient documents out over HTTP, hears what coordinators
// made of them, and keeps the link prices in them current.
//
// The bytes that were signed are the answer; a document whose signature does not
// verify, or that is older than the one held, is never given out. Prices travel
// inside the one signed document, as a new revision that changes nothing else: so a
// coordinator has one signature to check and one number that only grows, and never
// prices by one fit what it predicts by another. They follow eligible demand, not
// occupancy, and a revision comes at most each PriceEvery, and only where a price
// moved enough to change decisions. Several servers over one store may all refresh:
// one publishes, the others take up what it did.
//
//	GET  /v1/coefficients             newest; ETag, If-None-Match, Prefer: wait=30
//	GET  /v1/coefficients/{revision}  any
//	GET  /v1/history?limit=100        what was published, newest first
//	GET  /v1/events                   SSE: revision and digest of each new document
//	POST /v1/status                   a coordinator applied or refused a document
//	GET  /v1/status                   the last word of each coordinator
//	GET  /v1/keys                     public keys, PEM
//	GET  /healthz                     alive, and what is held
package serve

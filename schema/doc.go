// Package schema is the contract between the stages of kvwhatif: what a
// coordinator writes on a span, what travels through Kafka, what a row of
// ClickHouse means, and what a coefficient document says.
//
// A stage meets the next only through a type of this package, carried by a
// topic, a table or a document. It imports nothing else of kvwhatif. Durations are seconds
// (float64), sizes are bytes or tokens (int64), instants are Unix nanoseconds
// (int64), unless a name or a comment says otherwise.
package schema

// Package load brings parts from Kafka into the tables of ClickHouse.
//
// It inserts what it reads, makes the minutes that were touched again in the
// rollups, and then commits the offsets that this covers. Every step can be
// repeated without harm, so that a crash anywhere only repeats steps: requests
// merge by key, rollups replace themselves, replays and transfers are a row a
// span. Nothing depends on the order of parts or on where a batch begins.
package load

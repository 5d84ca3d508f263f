// Package kafka connects to Kafka and runs an embedded broker.
//
// The writer returns only when every message is acknowledged by all in-sync
// replicas, and bounds the bytes in flight. The reader is a group consumer
// whose offsets are committed by hand. Both speak to Apache Kafka and to the
// embedded broker alike.
package kafka

// Package kafkatest gives tests a real Apache Kafka: one broker in KRaft mode,
// in a temporary directory, out of jars that Maven fetches once.
package kafkatest

// Package e2e tests the built program as its users run it: as processes, on the
// embedded engines or on Apache Kafka, killed, fed with nonsense, on a full disk.
//
// Variants that take minutes are behind the build tag nightly.
package e2e

// Package clickhouse opens connections to ClickHouse and runs an embedded
// server.
//
// The embedded server is the real one: it is started as a child of this
// binary, out of one shared library or an installed clickhouse binary, and
// listens on HTTP on 127.0.0.1. So the embedded and the external database
// differ in nothing but their address.
package clickhouse

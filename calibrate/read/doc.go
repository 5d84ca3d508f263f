// Package read gets out of ClickHouse what calibration works on: the observations
// that laws are fitted to, and the demand that links are priced by.
//
// Both read requests with FINAL, for the rows of a request that came in parts are
// one only after the merge, and prune by minute, which the table is sorted by.
package read

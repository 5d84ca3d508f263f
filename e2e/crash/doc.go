// Package crash kills the program's processes by SIGKILL in the middle of traffic,
// and then recounts from what was sent: each accepted span is in the tables once,
// and the rollups are what the sender itself adds up.
//
// What runs are the built program's collect and load (two of them), Apache Kafka,
// and a process that holds an embedded ClickHouse. A run prints for each kill what
// was under way; one in which nothing ever was has shown nothing, and fails.
//
//	go test ./e2e/crash                                             a kill of each process
//	KVWHATIF_CRASH_KILLS=200 go test ./e2e/crash -run TestKills -v  what `make crash` runs
//
// KVWHATIF_CRASH_SEED repeats the order of victims, pauses and traffic of a run,
// and KVWHATIF_CRASH_JSON names a file that its table is written to.
package crash

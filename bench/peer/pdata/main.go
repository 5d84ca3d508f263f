// Command pdata times how the OpenTelemetry Collector decodes a request: it is a
// module of its own, so that kvwhatif does not depend on the collector.
//
//	pdata FILE SECONDS
//
// prints {"ns": ..., "allocs": ...} of one decoding of the request in FILE, by the
// CPU time of the process.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pdata:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("give a file and seconds, not %q", args)
	}
	body, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseFloat(args[1], 64)
	if err != nil {
		return err
	}
	var decoder ptrace.ProtoUnmarshaler
	decode := func() error { _, err := decoder.UnmarshalTraces(body); return err }
	if err := decode(); err != nil {
		return err
	}
	n, began, before := 0, cpu(), mallocs()
	for ends := time.Now().Add(time.Duration(seconds * float64(time.Second))); time.Now().Before(ends); n++ {
		if err := decode(); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"ns": float64(cpu()-began) / float64(n), "allocs": float64(mallocs()-before) / float64(n),
	})
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

package clickhouse

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// libraryRuns says whether libchdb.so can be loaded on this platform.
const libraryRuns = true

// runLibrary loads libchdb.so and runs its clickhouse-local on this thread
// until it ends, which it does not do in good order. args is its whole command
// line, the program's name first.
func runLibrary(path string, args []string) error {
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return fmt.Errorf("load the ClickHouse library %s: %w; delete it and run `make engine`", path, err)
	}
	symbol, err := purego.Dlsym(lib, "query_stable_v2")
	if err != nil {
		return fmt.Errorf("the ClickHouse library %s is of another version: %w; run `make engine`", path, err)
	}
	var query func(argc int32, argv **byte) uintptr
	purego.RegisterFunc(&query, symbol)
	argv := make([]*byte, len(args)+1) // C strings, then a null pointer
	for i, a := range args {
		c := append([]byte(a), 0)
		argv[i] = &c[0]
	}
	runtime.LockOSThread()
	query(int32(len(args)), (**byte)(unsafe.Pointer(&argv[0])))
	runtime.KeepAlive(argv)
	return nil
}

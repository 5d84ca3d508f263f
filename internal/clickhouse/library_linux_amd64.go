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
// until it ends. args is its whole command line, the program's name first.
func runLibrary(path string, args []string) (int, error) {
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return 0, fmt.Errorf("load the ClickHouse library %s: %w; delete it and run `make engine`", path, err)
	}
	symbol, err := purego.Dlsym(lib, "query_stable_v2")
	if err != nil {
		return 0, fmt.Errorf("the ClickHouse library %s is of another version: %w; run `make engine`", path, err)
	}
	var query func(argc int32, argv **byte) uintptr
	purego.RegisterFunc(&query, symbol)
	argv := make([]*byte, len(args)+1) // C strings, then a null pointer
	for i, a := range args {
		c := append([]byte(a), 0)
		argv[i] = &c[0]
	}
	runtime.LockOSThread()
	result := query(int32(len(args)), (**byte)(unsafe.Pointer(&argv[0])))
	runtime.KeepAlive(argv)
	if result == 0 {
		return 1, nil
	}
	return 0, nil
}

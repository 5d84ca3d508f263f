//go:build !linux

package clickhouse

import "syscall"

// dieWithParent changes nothing: only Linux has a death signal.
func dieWithParent() *syscall.SysProcAttr { return nil }

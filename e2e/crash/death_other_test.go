//go:build !linux

package crash

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }

//go:build !linux

package llama

import "syscall"

// dieWithParent keeps the process out of the terminal's group; only Linux has a
// death signal.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

package rig

import "syscall"

// dieWithParent ends what is measured with the bench.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

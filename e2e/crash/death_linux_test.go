package crash

import "syscall"

// dieWithParent ends a process with the test binary, even a killed one.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

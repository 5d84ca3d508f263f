package kafkatest

import "syscall"

// dieWithParent ends the broker with the test binary, even a killed one.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

//go:build !linux

package llama

import (
	"errors"
	"time"
)

// CPU is not known on this system: errors.ErrUnsupported.
func (s *Server) CPU() (ran, waited time.Duration, err error) { return 0, 0, errors.ErrUnsupported }

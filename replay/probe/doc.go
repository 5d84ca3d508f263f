// Package probe measures a link where no engine may be touched: it moves bytes
// between two hosts over TCP, so many flows at once, and says when the first and
// the last byte of each came. Server gives bytes to whoever knows its token; Run
// asks for them. What it sees is what a law of transfers is fitted to.
//
// A connection begins with a line of JSON from the client, the Hello. Then each
// request is 8 bytes, big endian: how many bytes to send. The server answers each
// with one byte, 1 where it sends them and 0 where it will not, and the bytes.
package probe

import (
	"errors"
	"fmt"
)

const (
	protocol = 1
	maxHello = 512     // bytes of the first line
	piece    = 1 << 18 // bytes of one write, and of one read
)

var (
	// ErrRefused says that the server does not give what it is asked for: its token
	// is another, or its limits are reached.
	ErrRefused = errors.New("the probe's server refuses")
	// ErrStopped says that a kill switch ended the probe.
	ErrStopped = errors.New("the probe was stopped")
)

// Hello is the first line of a connection.
type Hello struct {
	Version int    `json:"kvwhatif_probe"`
	Token   string `json:"token,omitempty"`
}

// Observation is one transfer.
type Observation struct {
	Bytes      int64   `json:"bytes"`
	Flows      int     `json:"flows"`                   // at once, this one included
	StartNanos int64   `json:"first_byte_unix_nanos"`   // by the clock of who asked
	FirstByte  float64 `json:"seconds_to_first_byte"`   // from the request
	Seconds    float64 `json:"seconds_first_to_last"`   // the time on the wire
	Round      int     `json:"round"`                   // transfers of one round ran together
	Total      float64 `json:"seconds_request_to_last"` // FirstByte + Seconds
}

// Check says what of an observation makes no sense.
func (o *Observation) Check() error {
	if o.Bytes < 1 || o.Flows < 1 || o.StartNanos <= 0 || !(o.FirstByte >= 0) || !(o.Seconds > 0) {
		return fmt.Errorf("%d bytes in %v s after %v s, %d at once, at %d: this is no transfer", o.Bytes, o.Seconds, o.FirstByte, o.Flows, o.StartNanos)
	}
	return nil
}

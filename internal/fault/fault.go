// Package fault names the two classes of error that a stage tells apart: those
// that pass, where it keeps the data and tries again, and those that do not.
package fault

// Class says what a caller can do about an error.
type Class int

// The two classes. An error that is not known is Retryable: giving up loses
// data, and sending twice is harmless, for the tables merge by key.
const (
	// Retryable will pass: a server is away, restarting, or out of space.
	Retryable Class = iota
	// Permanent will not pass by itself: a wrong query, password or name.
	Permanent
)

// String names the class.
func (c Class) String() string {
	if c == Permanent {
		return "permanent"
	}
	return "retryable"
}

// Error is an error of another program, on one line, with its class.
type Error struct {
	Class Class
	Code  int    // the program's own code, 0 where it has none or did not answer
	Text  string // one line: what happened, and what to do
	Err   error  // as the client library gave it
}

// Error is the one line.
func (e *Error) Error() string { return e.Text }

// Unwrap is the client library's error.
func (e *Error) Unwrap() error { return e.Err }

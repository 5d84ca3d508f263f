package otlp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/secure"
)

// Config is what an operator may set.
type Config struct {
	// GRPC is where OTLP/gRPC is listened for, HOST:PORT; empty or None: not at
	// all. Port 0 takes a free one.
	GRPC string `koanf:"grpc"`
	// HTTP is where OTLP/HTTP is listened for, HOST:PORT; empty or None: not at all.
	HTTP string `koanf:"http"`
	// MaxRequestBytes bounds one request, as sent and after decompression.
	MaxRequestBytes int `koanf:"max_request_bytes"`
	// MaxInFlightBytes bounds all requests in memory together; past it senders
	// are told to wait.
	MaxInFlightBytes int64 `koanf:"max_in_flight_bytes"`
	// Wait is how long a request waits for memory before its sender is told to.
	Wait time.Duration `koanf:"wait"`
	// RetryAfter is what a sender that has to wait is told, whole seconds.
	RetryAfter time.Duration `koanf:"retry_after"`
	// ReadTimeout is how long a sender may take for one request.
	ReadTimeout time.Duration `koanf:"read_timeout"`
	// IdleTimeout closes a connection that sends nothing.
	IdleTimeout time.Duration `koanf:"idle_timeout"`
	// MaxConnections bounds the open connections of each protocol; past it an idle
	// one is closed for a new one, or the new one where none is idle.
	MaxConnections int `koanf:"max_connections"`
	// TLS is of both protocols; nil: none.
	TLS *tls.Config `koanf:"-"`
	// Tokens are those that a sender has to show one of; nil: none.
	Tokens *secure.Tokens `koanf:"-"`
}

// None is an address that is not listened on, for where an empty one can not be
// written.
const None = "-"

// listens says that an address names a port.
func listens(address string) bool { return address != "" && address != None }

// Default gives the settings that need no thought: OTLP's own ports, on this
// machine only.
func Default() Config {
	return Config{
		GRPC:             "127.0.0.1:4317",
		HTTP:             "127.0.0.1:4318",
		MaxRequestBytes:  16 << 20,
		MaxInFlightBytes: 64 << 20,
		Wait:             time.Second,
		RetryAfter:       time.Second,
		ReadTimeout:      30 * time.Second,
		IdleTimeout:      5 * time.Minute,
		MaxConnections:   1024,
	}
}

// Validate says what is wrong with c and what to write instead.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("collect."+format, args...)) }
	if !listens(c.GRPC) && !listens(c.HTTP) {
		bad("grpc and collect.http both name no address: nothing would listen")
	}
	for name, address := range map[string]string{"grpc": c.GRPC, "http": c.HTTP} {
		if _, _, err := net.SplitHostPort(address); listens(address) && err != nil {
			bad("%s: %q is not HOST:PORT", name, address)
		}
	}
	if c.MaxRequestBytes < 1024 || c.MaxRequestBytes > 1<<30 {
		bad("max_request_bytes: %d is not from 1024 to 1 GiB", c.MaxRequestBytes)
	}
	if c.MaxInFlightBytes < int64(c.MaxRequestBytes) {
		bad("max_in_flight_bytes: %d would not hold one request of max_request_bytes (%d)", c.MaxInFlightBytes, c.MaxRequestBytes)
	}
	if c.MaxConnections < 1 {
		bad("max_connections: %d is less than 1", c.MaxConnections)
	}
	for name, d := range map[string]time.Duration{"retry_after": c.RetryAfter, "read_timeout": c.ReadTimeout, "idle_timeout": c.IdleTimeout} {
		if d < time.Second {
			bad("%s: %v is less than 1s", name, d)
		}
	}
	if c.Wait < 0 {
		bad("wait: %v is negative", c.Wait)
	}
	return errors.Join(errs...)
}

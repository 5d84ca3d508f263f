package kafka

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
)

// EmbeddedConfig says where an embedded broker keeps its messages and listens.
type EmbeddedConfig struct {
	Dir    string       // made if missing; one broker at a time, which the caller sees to
	Addr   string       // 127.0.0.1:PORT; empty or port 0: a free port
	Logger *slog.Logger // nil: slog.Default
}

// Embedded is a Kafka broker in this process. Messages outlive a kill -9 of
// it; they do not outlive a loss of power, for they are not synced one by one.
type Embedded struct {
	broker *kfake.Cluster
	addr   string
	once   sync.Once
}

// StartEmbedded starts a broker on its directory.
func StartEmbedded(cfg EmbeddedConfig) (*Embedded, error) {
	if cfg.Dir == "" {
		return nil, errors.New("start embedded Kafka: no directory given")
	}
	port, err := portOf(cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("start embedded Kafka: %w", err)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("start embedded Kafka: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	broker, err := kfake.NewCluster(kfake.Ports(port), kfake.DataDir(cfg.Dir), kfake.ClusterID("kvwhatif"), kfake.WithLogger(brokerLog{newQuiet(cfg.Logger, "embedded kafka: ")}))
	if err != nil {
		return nil, fmt.Errorf("start embedded Kafka in %s: %w", cfg.Dir, err)
	}
	return &Embedded{broker: broker, addr: broker.ListenAddrs()[0]}, nil
}

// portOf reads the port of a local address, 0 where it is open.
func portOf(addr string) (int, error) {
	if addr == "" {
		return 0, nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, fmt.Errorf("address %q is not 127.0.0.1:PORT", addr)
	}
	if host != "127.0.0.1" && host != "localhost" {
		return 0, fmt.Errorf("address %q: the embedded broker is for this machine only, use 127.0.0.1", addr)
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 0 || n > 65535 {
		return 0, fmt.Errorf("address %q has no port from 0 to 65535", addr)
	}
	return n, nil
}

// Addr is the broker's host:port.
func (e *Embedded) Addr() string { return e.addr }

// Cluster is how the broker is reached.
func (e *Embedded) Cluster() Cluster { return Brokers(e.addr) }

// Stop ends the broker and syncs its files. It may be called twice.
func (e *Embedded) Stop() { e.once.Do(e.broker.Close) }

// brokerLog takes the broker's warnings and errors; the rest is noise.
type brokerLog struct{ *quiet }

// Logf is called by the broker.
func (l brokerLog) Logf(level kfake.LogLevel, format string, args ...any) {
	at := slog.LevelDebug
	switch level {
	case kfake.LogLevelError:
		at = slog.LevelError
	case kfake.LogLevelWarn:
		at = slog.LevelWarn
	}
	l.log(at, format, args...)
}

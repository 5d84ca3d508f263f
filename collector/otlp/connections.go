package otlp

import (
	"net"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// limitConnections closes at once what is accepted while most connections are
// open, so that those who hold theirs are not disturbed and the others know.
func limitConnections(l net.Listener, most int, refused prometheus.Counter) net.Listener {
	return &limited{Listener: l, most: int64(most), refused: refused}
}

type limited struct {
	net.Listener
	most    int64
	open    atomic.Int64
	refused prometheus.Counter
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.most {
			return &counted{Conn: c, listener: l}, nil
		}
		l.open.Add(-1)
		l.refused.Inc()
		c.Close()
	}
}

type counted struct {
	net.Conn
	listener *limited
	once     sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.listener.open.Add(-1) })
	return c.Conn.Close()
}

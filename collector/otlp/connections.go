package otlp

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// limitConnections keeps at most most connections open. Where another comes, one on
// which no request is under way is closed for it: one that never had a request
// before those that had, and the longest idle first. Where all are at work, stalled
// is told, and the new one waits a moment for one to end and is closed otherwise.
func limitConnections(l net.Listener, most int, refused prometheus.Counter, stalled func()) net.Listener {
	return &limited{Listener: l, most: most, refused: refused, stalled: stalled, open: map[*counted]struct{}{}, ended: make(chan struct{}, 1)}
}

type limited struct {
	net.Listener
	most    int
	refused prometheus.Counter
	stalled func()
	ended   chan struct{} // a request ended, or a connection

	mu   sync.Mutex
	open map[*counted]struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if mine := l.place(c); mine != nil {
			return mine, nil
		}
		l.refused.Inc()
		c.Close()
	}
}

// place finds a place for c, or gives nil.
func (l *limited) place(c net.Conn) net.Conn {
	select {
	case <-l.ended:
	default:
	}
	if mine := l.admit(c); mine != nil {
		return mine
	}
	l.stalled()
	late := time.NewTimer(stallAfter)
	defer late.Stop()
	for {
		select {
		case <-late.C:
			return nil
		case <-l.ended:
			if mine := l.admit(c); mine != nil {
				return mine
			}
		}
	}
}

// admit counts c, or gives nil where there is no place for it.
func (l *limited) admit(c net.Conn) net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.most {
		victim := l.idlest()
		if victim == nil {
			return nil
		}
		l.refused.Inc()
		delete(l.open, victim)
		victim.Conn.Close()
	}
	mine := &counted{Conn: c, listener: l, since: time.Now()}
	l.open[mine] = struct{}{}
	return mine
}

// idlest is the connection to close for another, or nil.
func (l *limited) idlest() (best *counted) {
	for c := range l.open {
		switch {
		case c.requests > 0:
		case best == nil, best.served && !c.served, best.served == c.served && c.since.Before(best.since):
			best = c
		}
	}
	return best
}

// counted is an open connection. Its fields are under the listener's lock.
type counted struct {
	net.Conn
	listener *limited
	requests int       // under way
	served   bool      // had one
	since    time.Time // when it was opened, or its last request ended
}

// Close is of net.Conn.
func (c *counted) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.open, c)
	c.listener.mu.Unlock()
	c.listener.tell()
	return c.Conn.Close()
}

func (l *limited) tell() {
	select {
	case l.ended <- struct{}{}:
	default:
	}
}

func (c *counted) request(more int) {
	c.listener.mu.Lock()
	c.requests += more
	c.served, c.since = true, time.Now()
	c.listener.mu.Unlock()
	if more < 0 {
		c.listener.tell()
	}
}

type connectionKey struct{}

// ofConnection lets handlers find the connection.
func ofConnection(ctx context.Context, c net.Conn) context.Context {
	if encrypted, ok := c.(*tls.Conn); ok {
		c = encrypted.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// atWork marks the connections of requests that h answers.
func atWork(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if c, ok := q.Context().Value(connectionKey{}).(*counted); ok {
			c.request(+1)
			defer c.request(-1)
		}
		h.ServeHTTP(w, q)
	})
}

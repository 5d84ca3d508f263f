package probe

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	defaultTimeout = time.Minute
	stopEvery      = 100 * time.Millisecond
)

// Run moves what the configuration says, and gives what was seen, also where it is
// cut short. Connections are made once and used again, as engines do.
func Run(ctx context.Context, cfg Config) ([]Observation, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if cfg.Stop != nil {
		go watch(ctx, cfg.Stop, cancel)
	}
	p := &prober{cfg: cfg}
	defer p.close()
	rounds := cfg.rounds()
	for i, r := range rounds {
		if err := p.round(ctx, i, r); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return p.seen, fmt.Errorf("probe %s: round %d of %d: %w", cfg.Address, i+1, len(rounds), err)
		}
		if cfg.Progress != nil {
			cfg.Progress(i+1, len(rounds))
		}
	}
	return p.seen, nil
}

// watch ends the probe once stop gives a reason.
func watch(ctx context.Context, stop func() string, cancel context.CancelCauseFunc) {
	for {
		if why := stop(); why != "" {
			cancel(fmt.Errorf("%w: %s", ErrStopped, why))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(stopEvery):
		}
	}
}

type prober struct {
	cfg   Config
	conns []net.Conn
	seen  []Observation
	best  float64 // bytes/s of all flows of a round together
}

func (p *prober) close() {
	for _, c := range p.conns {
		_ = c.Close()
	}
}

// connect makes connections up to n, all of which have said hello.
func (p *prober) connect(ctx context.Context, n int) error {
	hello, err := json.Marshal(Hello{Version: protocol, Token: p.cfg.Token})
	if err != nil {
		return fmt.Errorf("first line: %w", err)
	}
	if len(hello) >= maxHello {
		return errors.New("the token is too long")
	}
	for len(p.conns) < n {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.cfg.Address)
		if err != nil {
			return fmt.Errorf("connect: %w: is `kvwhatif probe serve` running there?", err)
		}
		p.conns = append(p.conns, conn)
		if _, err := conn.Write(append(hello, '\n')); err != nil {
			return fmt.Errorf("say hello: %w", err)
		}
	}
	return nil
}

// round runs its flows together, and waits so long that the share is kept.
func (p *prober) round(ctx context.Context, number int, r round) error {
	limited, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	if err := p.connect(limited, r.flows); err != nil {
		return err
	}
	stop := context.AfterFunc(limited, p.close) // ends what is read or written
	defer stop()
	seen, errs := make([]Observation, r.flows), make([]error, r.flows)
	begin := time.Now()
	var all sync.WaitGroup
	for i, conn := range p.conns[:r.flows] {
		all.Go(func() { seen[i], errs[i] = fetch(conn, r.bytes) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		if limited.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("no end within %v: %w", p.cfg.Timeout, err)
		}
		return err
	}
	took := time.Since(begin)
	for i := range seen {
		seen[i].Flows, seen[i].Round = r.flows, number
		p.best = max(p.best, float64(r.bytes)*float64(r.flows)/took.Seconds())
	}
	p.seen = append(p.seen, seen...)
	return rest(ctx, p.cfg.pause(r.bytes*int64(r.flows), took, p.best))
}

func rest(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// fetch asks for n bytes, and times the first and the last.
func fetch(conn net.Conn, n int64) (o Observation, err error) {
	var ask [8]byte
	binary.BigEndian.PutUint64(ask[:], uint64(n))
	asked := time.Now()
	if _, err := conn.Write(ask[:]); err != nil {
		return o, fmt.Errorf("ask: %w", err)
	}
	// The server's answer comes in front of the first byte, and is read by itself:
	// what is read with it would have come at the same time.
	buffer := make([]byte, min(n, piece))
	if _, err := io.ReadFull(conn, buffer[:1]); err != nil {
		return o, fmt.Errorf("wait for the first byte: %w", err)
	}
	first := time.Now()
	if buffer[0] != 1 {
		return o, fmt.Errorf("%w %d bytes: its token is another, or its limit is reached", ErrRefused, n)
	}
	for got := int64(0); got < n; {
		k, err := conn.Read(buffer[:min(int64(len(buffer)), n-got)])
		got += int64(k)
		if err != nil && got < n {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return o, fmt.Errorf("after %d of %d bytes: %w", got, n, err)
		}
	}
	last := time.Now()
	o = Observation{Bytes: n, StartNanos: first.UnixNano(), FirstByte: first.Sub(asked).Seconds(), Seconds: max(last.Sub(first).Seconds(), 1e-9)}
	o.Total = o.FirstByte + o.Seconds
	return o, nil
}

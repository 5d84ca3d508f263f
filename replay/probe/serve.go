package probe

import (
	"bufio"
	"context"
	"crypto/subtle"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// ServerConfig bounds what a server gives.
type ServerConfig struct {
	Token    string        // that clients must know; "" for none
	MaxBytes int64         // in all; 0: no limit
	MaxFlows int           // connections at once; 0: 64
	Idle     time.Duration // after which a connection that asks for nothing is closed; 0: 1 min
	Logger   *slog.Logger  // nil for none
}

// Server gives bytes that no link can compress.
type Server struct {
	cfg  ServerConfig
	left atomic.Int64 // bytes that it may still give
	data []byte
}

// NewServer makes a server.
func NewServer(cfg ServerConfig) *Server {
	if cfg.MaxFlows <= 0 {
		cfg.MaxFlows = 64
	}
	if cfg.Idle <= 0 {
		cfg.Idle = time.Minute
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, data: make([]byte, piece)}
	s.left.Store(cfg.MaxBytes)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(s.data) // never fails
	return s
}

// Serve answers connections of l until ctx ends, and closes it.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	var all sync.WaitGroup
	defer all.Wait()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	slots := make(chan struct{}, s.cfg.MaxFlows)
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept a probe: %w", err)
		}
		select {
		case slots <- struct{}{}:
		default:
			s.cfg.Logger.Warn("probe: too many flows at once", "client", conn.RemoteAddr(), "max", s.cfg.MaxFlows)
			_ = conn.Close()
			continue
		}
		all.Go(func() {
			defer func() { <-slots }()
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer stop()
			defer conn.Close()
			given, err := s.answer(conn)
			s.cfg.Logger.Info("probe: a flow ended", "client", conn.RemoteAddr(), "bytes", given, "error", err)
		})
	}
}

// answer gives one connection what it asks for.
func (s *Server) answer(conn net.Conn) (given int64, err error) {
	in := bufio.NewReaderSize(conn, maxHello)
	_ = conn.SetReadDeadline(time.Now().Add(s.cfg.Idle))
	line, err := in.ReadSlice('\n')
	if err != nil {
		return 0, fmt.Errorf("read the first line: %w", err)
	}
	var hello Hello
	if err := json.Unmarshal(line, &hello); err != nil || hello.Version != protocol {
		return 0, errors.Join(errors.New("this is no probe, or one of another version"), err)
	}
	known := subtle.ConstantTimeCompare([]byte(hello.Token), []byte(s.cfg.Token)) == 1
	for {
		_ = conn.SetReadDeadline(time.Now().Add(s.cfg.Idle))
		var ask [8]byte
		if _, err := io.ReadFull(in, ask[:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return given, err
		}
		n := int64(binary.BigEndian.Uint64(ask[:]))
		if !known || !s.take(n) {
			_, err := conn.Write([]byte{0})
			return given, errors.Join(ErrRefused, err)
		}
		_, err := conn.Write([]byte{1})
		if err == nil {
			err = s.give(conn, n)
		}
		if err != nil {
			return given, fmt.Errorf("send %d bytes: %w", n, err)
		}
		given += n
	}
}

// take is true where n bytes may be given.
func (s *Server) take(n int64) bool {
	if n < 1 {
		return false
	}
	if s.cfg.MaxBytes <= 0 {
		return true
	}
	if s.left.Add(-n) >= 0 {
		return true
	}
	s.left.Add(n)
	return false
}

func (s *Server) give(conn net.Conn, n int64) error {
	for n > 0 {
		k := min(n, int64(len(s.data)))
		if _, err := conn.Write(s.data[:k]); err != nil {
			return err
		}
		n -= k
	}
	return nil
}

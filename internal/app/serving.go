package app

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kvwhatif/kvwhatif/calibrate/publish"
	"github.com/kvwhatif/kvwhatif/calibrate/read"
	"github.com/kvwhatif/kvwhatif/calibrate/serve"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
)

// newServer is a coefficient server over the tables, signing prices with the
// calibrator's key.
func newServer(conn *clickhouse.Conn, s *Settings, filter read.Filter, log *slog.Logger) (*serve.Server, error) {
	p, err := s.publisher(conn)
	if err != nil {
		return nil, err
	}
	cfg := serve.Config{
		Store: publish.NewClickHouse(conn), Keys: []ed25519.PublicKey{p.PublicKey()}, Status: serve.NewStatusTable(conn),
		PriceEvery: time.Duration(s.Serve.PriceEvery), PriceWindow: time.Duration(s.Serve.PriceWindow),
		Coordinators: int64(s.Serve.Coordinators),
		OnError: func(err error) {
			level := slog.LevelWarn
			if errors.Is(err, publish.ErrNotFound) { // as in every fleet before its first calibration
				level = slog.LevelInfo
			}
			log.Log(context.Background(), level, "serve", "error", err)
		},
	}
	if s.Serve.PriceEvery > 0 {
		cfg.Publisher = p
		cfg.Demand = func(ctx context.Context, from, until int64) (read.Eligible, error) {
			return read.Demand(ctx, conn, filter, from, until)
		}
	}
	server, err := serve.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	return server, nil
}

// startServe gives out coefficients until the process ends, behind the door of s.
func (p *process) startServe(server *serve.Server, s *Settings) (string, error) {
	if err := p.registry.Register(server); err != nil {
		return "", fmt.Errorf("metrics of serve: %w", err)
	}
	bound, err := p.serveTLS(s.Serve.Address, guard(server.Handler(), s.Collect.Tokens), s.Collect.TLS)
	if err != nil {
		return "", fmt.Errorf("serve: %w: choose another with --address", err)
	}
	warnOpen(p.log, "coefficients", bound, s.Collect.TLS, s.Collect.Tokens)
	p.group.Go(func() error { return server.Run(p.ctx) })
	return bound, nil
}

// Serve runs the coefficient server alone, until ctx ends.
func Serve(ctx context.Context, s *Settings, log *slog.Logger, announce Announce) (err error) {
	b, err := OpenOutside(ctx, s, false, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	server, err := newServer(b.Conn, s, read.Filter{Policies: s.Serve.Policies}, log)
	if err != nil {
		return err
	}
	p := newProcess(ctx, "serve", log)
	p.health.Add("coefficients", server.Ready)
	at := Endpoints{}
	if err = s.openDoor(log); err != nil {
		return p.fail(err)
	}
	if at.Coefficients, err = p.startServe(server, s); err == nil {
		at.Page, err = p.startPage(b, s, "")
	}
	if err == nil {
		at.Metrics, err = p.listen(s.Listen)
	}
	if err != nil {
		return p.fail(err)
	}
	announce(at)
	return p.wait()
}

// fail ends what has started already, and gives the reason.
func (p *process) fail(err error) error {
	p.group.Go(func() error { return err })
	if other := p.group.Wait(); other != nil && !errors.Is(other, err) {
		return errors.Join(err, other)
	}
	return err
}

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/kvwhatif/kvwhatif/collector/otlp"
	"github.com/kvwhatif/kvwhatif/dashboards/live"
	"github.com/kvwhatif/kvwhatif/dashboards/query"
	"github.com/kvwhatif/kvwhatif/dashboards/report"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
)

// defaultPage is where the page is where nothing else was said.
const defaultPage = "127.0.0.1:9474"

func (s *PageSettings) validate() error {
	if s.Address == "" || s.Address == otlp.None {
		return nil
	}
	host, _, err := net.SplitHostPort(s.Address)
	if err != nil {
		return fmt.Errorf("page.address is %q: give host:port, such as %s, or - for no page", s.Address, defaultPage)
	}
	if ip := net.ParseIP(host); host == "localhost" || (ip != nil && ip.IsLoopback()) || len(s.Hosts) > 0 {
		return nil
	}
	return fmt.Errorf("page.address is %s, which others can reach, and the page knows no users: keep it on 127.0.0.1, or put a proxy that knows them before it and name that in page.hosts", s.Address)
}

// tables are what the page reads.
type tables struct{ conn *clickhouse.Conn }

func (t tables) Data(ctx context.Context, w query.Window) (report.Data, error) {
	return query.Data(ctx, t.conn, w)
}

func (t tables) Held(ctx context.Context, w query.Window) (query.Holdings, error) {
	return query.Held(ctx, t.conn, w)
}

func (t tables) Requests(ctx context.Context, id string) ([]report.Request, error) {
	return query.Requests(ctx, t.conn, id)
}

// startPage gives the page until the process ends, and its URL. takes is where
// this process takes spans; "" for not at all. It reads as the user who may only
// read, where that one is ours to know.
func (p *process) startPage(b *Backend, s *Settings, takes string) (string, error) {
	if s.Page.Address == "" || s.Page.Address == otlp.None {
		return "", nil
	}
	conn := b.Conn
	if b.ReaderDSN != "" {
		var err error
		if conn, err = clickhouse.Open(p.ctx, b.ReaderDSN); err != nil {
			return "", fmt.Errorf("page: %w", err)
		}
		context.AfterFunc(p.ctx, func() { conn.Close() })
	}
	handler := live.New(live.Config{Source: tables{conn}, Hosts: s.Page.Hosts, Version: Version, OTLP: takes, Log: p.log})
	bound, err := p.serve(s.Page.Address, handler)
	if errors.Is(err, syscall.EADDRINUSE) && s.Page.Address == defaultPage { // nobody asked for just this port
		p.log.Warn("the page has another port, for its own is in use", "port", defaultPage)
		bound, err = p.serve("127.0.0.1:0", handler)
	}
	if err != nil {
		return "", fmt.Errorf("page: %w: choose another with --page", err)
	}
	return "http://" + bound + "/", nil
}

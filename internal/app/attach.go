package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
)

// attached gives the settings with what they leave out taken from the directory of
// a running `kvwhatif up`: its broker, its database, its sampling salt. Where
// nothing ever ran there, they come back as they are.
func (s *Settings) attached() (*Settings, error) {
	if _, err := os.Stat(filepath.Join(s.Dir, stateFile)); errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	state, err := remembered(s.Dir)
	if err != nil {
		return nil, err
	}
	out := *s
	if len(out.Kafka.Brokers) == 0 && state.KafkaAddr != "" {
		out.Kafka = kafka.Brokers(state.KafkaAddr)
	}
	if out.Replay.Salt == "" && s.ClickHouse.DSN == "" && len(s.Kafka.Brokers) == 0 {
		out.Replay.Salt = state.ReplaySalt
		if state.ReplayRate > 0 {
			out.Replay.Rate, out.Replay.Control = state.ReplayRate, state.ReplayControl
		}
	}
	if out.ClickHouse.DSN == "" && state.ClickHousePort != 0 {
		dir, err := filepath.Abs(filepath.Join(s.Dir, clickHouseDir))
		if err != nil {
			return nil, fmt.Errorf("directory %s: %w", s.Dir, err)
		}
		if out.ClickHouse.DSN, err = clickhouse.Attach(dir, state.ClickHousePort); err != nil {
			return nil, err
		}
	}
	return &out, nil
}

// openTables connects to the database of the settings or, where they name none, to
// that of a `kvwhatif up` that runs on their directory. It gives the settings with
// what that directory knows.
func openTables(ctx context.Context, s *Settings) (*clickhouse.Conn, *Settings, error) {
	full, err := s.attached()
	if err != nil {
		return nil, nil, err
	}
	if full.ClickHouse.DSN == "" {
		return nil, nil, fmt.Errorf("no ClickHouse: give --clickhouse http://USER:PASSWORD@HOST:8123/kvwhatif, or --dir of a running `kvwhatif up` (nothing ran in %s)", s.Dir)
	}
	conn, err := clickhouse.Open(ctx, full.ClickHouse.DSN)
	if err != nil && s.ClickHouse.DSN == "" {
		return nil, nil, fmt.Errorf("the embedded ClickHouse of %s does not answer (%w): start `kvwhatif up --dir %s`, or name another with --clickhouse", s.Dir, err, s.Dir)
	}
	return conn, full, err
}

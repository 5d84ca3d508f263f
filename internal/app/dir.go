package app

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// Dir is the directory of an embedded run, locked for this process: data of the
// broker and the database, keys, and what must be the same the next time.
type Dir struct {
	Path  string
	State State
	lock  *flock.Flock
}

// State is what a directory remembers, so that a second run finds the first
// one's endpoints and neither doubles nor moves its rows.
type State struct {
	RunID          string    `json:"run_id"`
	BaseTime       time.Time `json:"base_time"` // simulated second 0
	KafkaAddr      string    `json:"kafka"`
	ClickHousePort int       `json:"clickhouse_http_port"`
	GRPCAddr       string    `json:"otlp_grpc"`
	HTTPAddr       string    `json:"otlp_http"`
	ServeAddr      string    `json:"serve"`
	ReplaySalt     string    `json:"replay_salt"`              // secret of the sampling plan, hex
	ReplayRate     float64   `json:"replay_rate,omitempty"`    // of the plan, where it is not the settings'
	ReplayControl  float64   `json:"replay_control,omitempty"` // likewise
	Demo           string    `json:"demo,omitempty"`           // flags of the demo whose rows are in it
}

const (
	stateFile = "state.json"
	lockFile  = "lock"
	// clickHouseDir is where the embedded database is.
	clickHouseDir = "clickhouse"
	// simulatedSpan is how long the runs of a demo last, one after the other. Base
	// times lie this far back, so that no simulated span is in the future.
	simulatedSpan = 3 * time.Hour
)

// OpenDir creates the directory where it is missing, takes its lock before
// anything else is opened in it (two brokers on one directory lose messages),
// and reads or makes its state.
func OpenDir(path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("directory %s: %w", path, err)
	}
	if err := os.MkdirAll(abs, 0o750); err != nil {
		return nil, fmt.Errorf("create directory %s: %w: choose another with --dir", abs, err)
	}
	d := &Dir{Path: abs, lock: flock.New(filepath.Join(abs, lockFile))}
	held, err := d.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w: choose another directory with --dir", abs, err)
	}
	if !held {
		return nil, fmt.Errorf("directory %s is in use by another kvwhatif: stop that one, or choose another with --dir", abs)
	}
	if err := d.load(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Join gives a path inside the directory.
func (d *Dir) Join(elem ...string) string {
	return filepath.Join(append([]string{d.Path}, elem...)...)
}

// Close gives the lock back.
func (d *Dir) Close() error { return d.lock.Unlock() }

func (d *Dir) load() error {
	raw, err := os.ReadFile(d.Join(stateFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return d.fresh()
	case err != nil:
		return fmt.Errorf("read state of %s: %w", d.Path, err)
	}
	if err := json.Unmarshal(raw, &d.State); err != nil {
		return fmt.Errorf("state %s is damaged (%w): restore it, or start in a new directory with --dir", d.Join(stateFile), err)
	}
	return nil
}

func (d *Dir) fresh() error {
	var salt [32]byte
	rand.Read(salt[:])
	d.State = State{
		RunID:      newRunID(),
		BaseTime:   time.Now().Add(-simulatedSpan).Truncate(10 * time.Minute).UTC(),
		ReplaySalt: hex.EncodeToString(salt[:]),
	}
	return d.Save()
}

// newRunID names a run as no other.
func newRunID() string {
	var id [8]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// Save writes the state so that a crash leaves the old one or the new one.
func (d *Dir) Save() error {
	raw, err := json.MarshalIndent(d.State, "", "  ")
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	return writeFileAtomic(d.Join(stateFile), append(raw, '\n'), 0o600)
}

// writeFileAtomic replaces path by rename.
func writeFileAtomic(path string, data []byte, mode os.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Sync(), tmp.Chmod(mode), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}

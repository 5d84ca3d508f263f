package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/collector/load"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/internal/kafka/kafkatest"
	"github.com/kvwhatif/kvwhatif/schema"
)

// endpoints is what a long-running command prints once it listens.
type endpoints struct {
	GRPC       string `json:"otlp_grpc"`
	HTTP       string `json:"otlp_http"`
	Kafka      string `json:"kafka"`
	ClickHouse string `json:"clickhouse"`
	Metrics    string `json:"metrics"`
}

// rig is the processes under test.
type rig struct {
	victims []*victim
	keepers []*keeper
	loaders []*loader
	grpc    string
	http    string
	kafka   string
	reader  string // DSN of who may only select
	writer  string // empty where it is not ours to know
}

// victim is a process that can be killed.
type victim struct {
	name    string
	rereads bool // after its end, load begins where it had committed
	broker  bool // the broker ends with it
	up      func() error
	kill    func() error
}

// loader is where a loader's metrics are, through all its lives.
type loader struct {
	keeper *keeper
	mu     sync.Mutex
	at     endpoints
}

func (l *loader) heard(stdout []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return json.Unmarshal(stdout, &l.at)
}

func (l *loader) metrics() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at.Metrics
}

// places are directories, which may be file systems of their own; empty: a
// temporary one.
type places struct{ broker, database string }

// startStages starts each stage as a process of its own, and two loaders.
func startStages(t *testing.T, at places, mutate func(*clickhouse.Conn)) *rig {
	t.Helper()
	clickhousetest.RequireEngine(t)
	r := &rig{}
	broker := r.startBroker(t, at.broker)
	r.kafka = broker.Addr()
	r.startHolder(t, at.database)
	out, err := migrate(r.writer)
	require.NoError(t, err, string(out))
	if mutate != nil {
		conn, err := clickhouse.Open(t.Context(), r.writer)
		require.NoError(t, err)
		defer conn.Close()
		mutate(conn)
	}
	r.startCollect(t)
	for i := range 2 {
		r.startLoader(t, fmt.Sprintf("loader %d", i+1))
	}
	return r
}

func (r *rig) startBroker(t *testing.T, dir string) *kafkatest.Broker {
	t.Helper()
	if dir == "" {
		dir = t.TempDir()
	}
	broker, err := kafkatest.Start(dir, "")
	if errors.Is(err, kafkatest.ErrNotHere) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
	var mu sync.Mutex
	var failure error
	var wait sync.WaitGroup
	up := true
	t.Cleanup(func() { wait.Wait(); broker.Kill() })
	v := &victim{name: "broker", rereads: true, broker: true}
	v.up = func() error {
		mu.Lock()
		defer mu.Unlock()
		if !up {
			return errors.Join(errors.New("the broker is not up"), failure)
		}
		return nil
	}
	v.kill = func() error {
		mu.Lock()
		up = false
		mu.Unlock()
		broker.Kill()
		wait.Go(func() {
			err := broker.Restart()
			mu.Lock()
			defer mu.Unlock()
			up, failure = err == nil, err
		})
		return nil
	}
	r.victims = append(r.victims, v)
	return broker
}

// startHolder starts the process that holds the database. Its port and passwords
// stay the same through all its lives.
func (r *rig) startHolder(t *testing.T, dir string) {
	t.Helper()
	if dir == "" {
		dir = t.TempDir()
	}
	var mu sync.Mutex
	var at held
	k := &keeper{name: "database holder", self: true, args: func() []string {
		return []string{holderCommand, dir, strconv.Itoa(at.Port)} // between two lives: nobody writes it
	}, heard: func(stdout []byte) error {
		mu.Lock()
		defer mu.Unlock()
		return json.Unmarshal(stdout, &at)
	}}
	r.keep(t, k, false)
	r.reader, r.writer = at.Reader, at.Writer
	r.victims = append(r.victims, databaseVictim(k))
}

// databaseVictim is the server process that k has started.
func databaseVictim(k *keeper) *victim {
	v := &victim{name: "database"}
	v.up = func() error {
		if err := k.isUp(); err != nil {
			return err
		}
		if databaseOf(k.pid()) == 0 {
			return errors.New("the database is between two starts")
		}
		return nil
	}
	v.kill = func() error {
		pid := databaseOf(k.pid())
		if pid == 0 {
			return errors.New("the database is between two starts")
		}
		return syscall.Kill(pid, syscall.SIGKILL)
	}
	return v
}

func (r *rig) startCollect(t *testing.T) {
	t.Helper()
	at := endpoints{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0"}
	k := &keeper{name: "collector", args: func() []string {
		return []string{"collect", "--kafka", r.kafka, "--grpc", at.GRPC, "--http", at.HTTP, "--listen", "-", "--output", "json"}
	}, heard: func(stdout []byte) error { return json.Unmarshal(stdout, &at) }}
	r.keep(t, k, false)
	r.grpc, r.http = at.GRPC, at.HTTP
}

func (r *rig) startLoader(t *testing.T, name string) {
	t.Helper()
	l := &loader{}
	l.keeper = &keeper{name: name, heard: l.heard, args: func() []string {
		return []string{"load", "--kafka", r.kafka, "--clickhouse", r.writer, "--listen", "127.0.0.1:0", "--output", "json"}
	}}
	r.loaders = append(r.loaders, l)
	r.keep(t, l.keeper, true)
}

// startUp starts everything in one process.
func startUp(t *testing.T, dir string) *rig {
	t.Helper()
	clickhousetest.RequireEngine(t)
	if dir == "" {
		dir = t.TempDir()
	}
	r := &rig{}
	l := &loader{at: endpoints{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0"}}
	l.keeper = &keeper{name: "up", heard: l.heard, args: func() []string {
		return []string{"up", "--dir", dir, "--grpc", l.at.GRPC, "--http", l.at.HTTP, "--address", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--output", "json"}
	}}
	r.loaders = append(r.loaders, l)
	r.keep(t, l.keeper, true)
	r.victims[0].broker = true
	r.grpc, r.http, r.kafka, r.reader = l.at.GRPC, l.at.HTTP, l.at.Kafka, l.at.ClickHouse
	r.victims = append(r.victims, databaseVictim(l.keeper))
	return r
}

func (r *rig) keep(t *testing.T, k *keeper, rereads bool) {
	t.Helper()
	keep(t, k)
	r.keepers = append(r.keepers, k)
	r.victims = append(r.victims, &victim{name: k.name, rereads: rereads, up: k.isUp, kill: k.kill})
}

// fell says which processes ended though nobody killed them.
func (r *rig) fell() error {
	var errs []error
	for _, k := range r.keepers {
		k.mu.Lock()
		if k.fell != "" {
			errs = append(errs, errors.New(k.fell))
		}
		k.mu.Unlock()
	}
	return errors.Join(errs...)
}

// allUp says which victims are not back.
func (r *rig) allUp() error {
	for _, v := range r.victims {
		if err := v.up(); err != nil {
			return err
		}
	}
	return nil
}

// drained says what load has not committed yet.
func (r *rig) drained(ctx context.Context) error {
	lag, err := kafka.Lag(ctx, kafka.Brokers(r.kafka), load.Group, schema.TopicParts)
	if err != nil {
		return err
	}
	for _, n := range lag {
		if n > 0 {
			return fmt.Errorf("load has messages to commit, by partition: %v", lag)
		}
	}
	return nil
}

// doors are the ways in: most of what is sent comes by gRPC.
func (r *rig) doors(t *testing.T, s *sender) {
	t.Helper()
	for range 3 {
		s.otlp = append(s.otlp, grpcDoor(t, r.grpc))
	}
	s.otlp = append(s.otlp, httpDoor(r.http, false), httpDoor(r.http, false), httpDoor(r.http, true))
	s.direct = kafkaDoor(t, r.kafka)
}

func migrate(dsn string) ([]byte, error) {
	cmd := exec.Command(program, "migrate", "--clickhouse", dsn)
	cmd.Env = environment()
	return cmd.CombinedOutput()
}

func (r *rig) victimOf(name string) *victim {
	for _, v := range r.victims {
		if v.name == name {
			return v
		}
	}
	panic("no victim is named " + name)
}

// spare takes a process from the victims.
func (r *rig) spare(name string) {
	r.victims = slices.DeleteFunc(r.victims, func(v *victim) bool { return v.name == name })
}

// where is how far each loader and the group are, by partition.
func (r *rig) where(ctx context.Context) string {
	cluster := kafka.Brokers(r.kafka)
	ends, err := kafka.EndOffsets(ctx, cluster, schema.TopicParts)
	committed, err2 := kafka.Committed(ctx, cluster, load.Group, schema.TopicParts)
	said := fmt.Sprintf("ends %v (%v), committed %v (%v)", ends, err, committed, err2)
	for _, l := range r.loaders {
		p, err := scrape(l.metrics())
		said += fmt.Sprintf("; %s has inserted %v (%v)", l.keeper.name, p.next, err)
	}
	return said
}

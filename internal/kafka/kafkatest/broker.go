package kafkatest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
)

const (
	installTimeout = 5 * time.Minute
	startTimeout   = 90 * time.Second
	stopTimeout    = 30 * time.Second
)

// Broker is a running Apache Kafka, of one node or of several.
type Broker struct {
	cmd  *exec.Cmd
	dir  string
	libs string
	heap string // largest of its JVM, as -Xmx has it
	port int
	done chan struct{}
}

// shared is the broker of this test binary.
var shared struct {
	sync.Mutex
	broker *Broker
	err    error
}

// Shared returns one broker for the whole test binary: it takes seconds to
// start. Call StopShared at the end of TestMain. Without Java or Maven the
// test skips, and fails if CI is set.
func Shared(t testing.TB) *Broker {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.broker == nil && shared.err == nil {
		shared.broker, shared.err = startTemporary()
	}
	if shared.err != nil {
		missing(t, shared.err)
	}
	return shared.broker
}

// StopShared ends the shared broker, if there is one.
func StopShared() {
	shared.Lock()
	defer shared.Unlock()
	if shared.broker != nil {
		shared.broker.Stop()
		os.RemoveAll(shared.broker.dir)
		shared.broker = nil
	}
}

func startTemporary() (*Broker, error) {
	dir, err := os.MkdirTemp("", "kafkatest")
	if err != nil {
		return nil, err
	}
	b, err := Start(dir, "")
	if err != nil {
		os.RemoveAll(dir)
	}
	return b, err
}

// missing skips on a laptop and fails under CI.
func missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// Start starts a broker on an empty directory, installing Kafka first where it
// is not yet in the cache. extra holds further lines of server.properties.
func Start(dir, extra string) (*Broker, error) {
	libs, err := jars()
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	n := node{id: 1, controls: true, port: ports[0], controller: ports[1], replicas: 1, extra: extra}
	b, err := n.format(libs, dir, "512m", clusterID())
	if err != nil {
		return nil, err
	}
	return b, b.Restart()
}

func jars() (libs string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	return Install(ctx)
}

func (b *Broker) file() string { return filepath.Join(b.dir, "server.properties") }

func (b *Broker) java(args ...string) *exec.Cmd {
	options := []string{"-Xms128m", "-Xmx" + b.heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(b.libs, "*")}
	cmd := exec.Command("java", append(options, args...)...)
	cmd.Dir = b.dir
	return cmd
}

// Restart starts the broker, at its old address and with its old messages.
// Stop or Kill it first.
func (b *Broker) Restart() error {
	log, err := os.OpenFile(filepath.Join(b.dir, "broker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	b.cmd = b.java("kafka.Kafka", b.file())
	b.cmd.Stdout, b.cmd.Stderr = log, log
	b.cmd.SysProcAttr = dieWithParent()
	if err := b.cmd.Start(); err != nil {
		return fmt.Errorf("start Kafka: %w", err)
	}
	b.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) { _ = cmd.Wait(); close(done) }(b.cmd, b.done)
	if err := b.waitReady(); err != nil {
		b.Kill()
		return err
	}
	return nil
}

// waitReady returns when the broker answers a question about its topics.
func (b *Broker) waitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		conn, err := net.DialTimeout("tcp", b.Addr(), time.Second)
		if err == nil {
			conn.Close()
			return nil
		}
		select {
		case <-b.done:
			return fmt.Errorf("Kafka ended at its start: see %s", filepath.Join(b.dir, "broker.log"))
		case <-ctx.Done():
			return fmt.Errorf("Kafka does not open %s: %w", b.Addr(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Addr is the broker's host:port.
func (b *Broker) Addr() string { return fmt.Sprintf("127.0.0.1:%d", b.port) }

// Cluster is how the broker is reached.
func (b *Broker) Cluster() kafka.Cluster { return kafka.Brokers(b.Addr()) }

// Kill ends the broker by SIGKILL.
func (b *Broker) Kill() {
	_ = b.cmd.Process.Kill()
	<-b.done
}

// Stop ends the broker in an orderly way.
func (b *Broker) Stop() {
	_ = b.cmd.Process.Signal(os.Interrupt)
	select {
	case <-b.done:
	case <-time.After(stopTimeout):
		b.Kill()
	}
}

// freePorts asks the kernel for ports and holds all until it has them.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

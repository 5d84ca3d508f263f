package kafkatest

import (
	"fmt"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
)

// clusterHeap is small: three brokers share a machine with what they test.
const clusterHeap = "256m"

// Brokers starts a cluster of n brokers, of which the first is the controller, and
// stops it at the end of the test. With three, topics that are made with three
// replicas need two of them in sync. Without Java or Maven the test skips, and fails
// if CI is set.
func Brokers(t testing.TB, n int) []*Broker {
	t.Helper()
	brokers, err := startCluster(t.TempDir(), n)
	t.Cleanup(func() {
		for _, b := range brokers {
			if b != nil && b.done != nil {
				b.Kill() // an orderly end waits for replicas, and the data is thrown away
			}
		}
	})
	if err != nil {
		missing(t, err)
	}
	return brokers
}

// All is how a cluster is reached.
func All(brokers []*Broker) kafka.Cluster {
	var addresses []string
	for _, b := range brokers {
		addresses = append(addresses, b.Addr())
	}
	return kafka.Brokers(addresses...)
}

func startCluster(dir string, n int) ([]*Broker, error) {
	libs, err := jars()
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(n + 1)
	if err != nil {
		return nil, err
	}
	brokers, id := make([]*Broker, n), clusterID()
	var group errgroup.Group
	for i := range brokers {
		at := node{id: i + 1, controls: i == 0, port: ports[i], controller: ports[n], replicas: min(n, 3)}
		group.Go(func() (err error) {
			if brokers[i], err = at.format(libs, filepath.Join(dir, fmt.Sprint(at.id)), clusterHeap, id); err != nil {
				return err
			}
			return brokers[i].Restart()
		})
	}
	return brokers, group.Wait()
}

package kafkatest

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
)

// properties of every node. The internal topics are small, a group's first
// rebalance does not wait for more members, and a broker that was killed may come
// back, or is taken out of the replicas in sync, after 3 s.
const properties = `node.id=%[1]d
process.roles=%[2]s
controller.quorum.bootstrap.servers=127.0.0.1:%[4]d
listeners=%[5]s
advertised.listeners=%[5]s
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=%[3]s
offsets.topic.replication.factor=%[6]d
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=4
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
broker.session.timeout.ms=3000
%[7]s
`

// node is one of a cluster. Node 1 is the controller, and a broker too; the others
// are brokers only, so that the cluster can be asked with one broker left.
type node struct {
	id         int
	controls   bool
	port       int    // of the broker
	controller int    // port of node 1's controller
	replicas   int    // of the offsets of groups
	extra      string // further lines of server.properties
}

// clusterID is a new one, as Kafka writes it.
func clusterID() string {
	var id [16]byte
	rand.Read(id[:])
	id[0] &= 0x7f // does not begin with a dash, which would be a flag
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// format makes the node's directory.
func (n *node) format(libs, dir, heap, cluster string) (*Broker, error) {
	b := &Broker{dir: dir, libs: libs, port: n.port, heap: heap}
	role, listeners := "broker", fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", n.port)
	how := "--no-initial-controllers"
	if n.controls {
		role, how = "broker,controller", "--standalone"
		listeners += fmt.Sprintf(",CONTROLLER://127.0.0.1:%d", n.controller)
	}
	body := fmt.Sprintf(properties, n.id, role, filepath.Join(dir, "data"), n.controller, listeners, n.replicas, n.extra)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(b.file(), []byte(body), 0o600); err != nil {
		return nil, err
	}
	if out, err := b.java("kafka.tools.StorageTool", "format", how, "-t", cluster, "-c", b.file()).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("format the Kafka storage: %w: %s", err, lastLine(out))
	}
	return b, nil
}

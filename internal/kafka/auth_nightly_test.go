//go:build nightly

package kafka_test

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/internal/kafka/kafkatest"
	"github.com/kvwhatif/kvwhatif/internal/secure"
	"github.com/kvwhatif/kvwhatif/internal/secure/securetest"
)

// guarded makes the listener of a broker ask who is there; over TLS where key is a
// PEM file of a key and its certificate.
const guarded = `listener.security.protocol.map=PLAINTEXT:%[1]s,CONTROLLER:PLAINTEXT
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.plaintext.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="admin-secret" user_admin="admin-secret" user_plain="right";
listener.name.plaintext.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.plaintext.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
%[2]s`

// Messages pass a real broker that asks for a password, by each mechanism, in the
// clear and over TLS with a certificate of ours; a wrong password is told as one.
func TestSASLWithKafka(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", encrypted), func(t *testing.T) {
			broker, base := guardedBroker(t, encrypted)
			addScram(t, broker.Addr(), base)
			for i, c := range []struct{ user, mechanism string }{
				{"plain", "PLAIN"}, {"scram", "SCRAM-SHA-256"}, {"scram", "SCRAM-SHA-512"}, {"scram", ""},
			} {
				cluster := base
				cluster.User, cluster.Password, cluster.Mechanism = c.user, "right", c.mechanism
				name := fmt.Sprintf("t%d", i)
				require.NoError(t, kafka.EnsureTopics(t.Context(), cluster, []kafka.TopicSpec{{Name: name, Partitions: 1, Retention: time.Hour}}), c)
				w, err := kafka.NewWriter(kafka.WriterConfig{Cluster: cluster})
				require.NoError(t, err)
				require.NoError(t, w.Produce(t.Context(), name, kafka.Message{Value: []byte("hello")}), c)
				require.NoError(t, w.Close())
				r, err := kafka.NewReader(kafka.ReaderConfig{Cluster: cluster, Topic: name, Group: "g" + name})
				require.NoError(t, err)
				m, err := r.Fetch(t.Context())
				require.NoError(t, err, c)
				require.Equal(t, "hello", string(m.Value))
				require.NoError(t, r.Commit(t.Context(), m))
				require.NoError(t, r.Close())

				cluster.Password = "wrong-password"
				err = kafka.EnsureTopics(t.Context(), cluster, []kafka.TopicSpec{{Name: name, Partitions: 1, Retention: time.Hour}})
				require.ErrorContains(t, err, "refused the user or password", c)
				require.NotContains(t, err.Error(), "wrong-password")
			}
		})
	}
}

func guardedBroker(t *testing.T, encrypted bool) (*kafkatest.Broker, kafka.Cluster) {
	dir, protocol, more, base := t.TempDir(), "SASL_PLAINTEXT", "", kafka.Cluster{}
	if encrypted {
		a := securetest.New(t)
		both := filepath.Join(t.TempDir(), "broker.pem")
		cert, key := a.Issue(t, "broker")
		var pem []byte
		for _, file := range []string{key, cert} {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			pem = append(pem, raw...)
		}
		require.NoError(t, os.WriteFile(both, pem, 0o600))
		protocol, base.TLS, base.CA = "SASL_SSL", true, a.CA
		base.Cert, base.Key = a.Issue(t, "kvwhatif")
		more = "ssl.client.auth=required\nssl.keystore.type=PEM\nssl.keystore.location=" + both + "\nssl.truststore.type=PEM\nssl.truststore.location=" + a.CA
	}
	broker, err := kafkatest.Start(dir, fmt.Sprintf(guarded, protocol, more))
	require.NoError(t, err)
	t.Cleanup(broker.Stop)
	base.Brokers = []string{broker.Addr()}
	return broker, base
}

// addScram makes the user scram, as an administrator of the broker would.
func addScram(t *testing.T, addr string, base kafka.Cluster) {
	transport := &kafkago.Transport{SASL: plain.Mechanism{Username: "admin", Password: "admin-secret"}}
	defer transport.CloseIdleConnections()
	if base.TLS {
		var err error
		transport.TLS, err = secure.ClientFiles{CA: base.CA, Cert: base.Cert, Key: base.Key}.Config()
		require.NoError(t, err)
	}
	client := &kafkago.Client{Addr: kafkago.TCP(addr), Transport: transport, Timeout: 20 * time.Second}
	for _, m := range []kafkago.ScramMechanism{kafkago.ScramMechanismSha256, kafkago.ScramMechanismSha512} {
		salt := []byte("salt of a test")
		one := kafkago.UserScramCredentialsUpsertion{Name: "scram", Mechanism: m, Iterations: 4096, Salt: salt, SaltedPassword: salted(m, salt)}
		answer, err := client.AlterUserScramCredentials(t.Context(), &kafkago.AlterUserScramCredentialsRequest{Upsertions: []kafkago.UserScramCredentialsUpsertion{one}})
		require.NoError(t, err)
		for _, r := range answer.Results {
			require.NoError(t, r.Error)
		}
	}
}

// salted is the password "right" as Kafka keeps it (RFC 5802: PBKDF2).
func salted(m kafkago.ScramMechanism, salt []byte) []byte {
	h, size := sha256.New, sha256.Size
	if m == kafkago.ScramMechanismSha512 {
		h, size = sha512.New, sha512.Size
	}
	key, err := pbkdf2.Key(h, "right", salt, 4096, size)
	if err != nil {
		panic(err)
	}
	return key
}

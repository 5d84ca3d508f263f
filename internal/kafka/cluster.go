package kafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/kvwhatif/kvwhatif/internal/secure"
)

// Message is kafka-go's message.
type Message = kafkago.Message

// Header is kafka-go's message header.
type Header = kafkago.Header

const (
	dialTimeout = 5 * time.Second
	// askTimeout bounds one administrative question to a cluster.
	askTimeout = 15 * time.Second
)

// Cluster is how a Kafka cluster is reached. Only Brokers is required.
type Cluster struct {
	Brokers   []string `koanf:"brokers"`                // host:port, some of them
	TLS       bool     `koanf:"tls"`                    // encrypt, and verify the brokers
	CA        string   `koanf:"ca"`                     // PEM file of the authority; empty: the system's
	Cert      string   `koanf:"cert"`                   // PEM file of our certificate, for brokers that ask for one
	Key       string   `koanf:"key"`                    // PEM file of its private key
	User      string   `koanf:"user"`                   // SASL user; empty: no SASL
	Password  string   `koanf:"password" secret:"true"` // SASL password
	Mechanism string   `koanf:"mechanism"`              // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; empty: SCRAM-SHA-512
}

// Brokers is a cluster reached in plain text.
func Brokers(addresses ...string) Cluster { return Cluster{Brokers: addresses} }

// Validate says what is wrong with the addresses or the credentials.
func (c Cluster) Validate() error {
	if len(c.Brokers) == 0 {
		return errors.New("no Kafka brokers given: name some as HOST:PORT")
	}
	for _, b := range c.Brokers {
		if _, _, err := net.SplitHostPort(b); err != nil {
			return fmt.Errorf("Kafka broker %q is not HOST:PORT", b)
		}
	}
	if _, err := c.tls(); err != nil {
		return err
	}
	_, err := c.sasl()
	return err
}

func (c Cluster) addr() net.Addr { return kafkago.TCP(c.Brokers...) }

// String lists the brokers, without credentials.
func (c Cluster) String() string { return strings.Join(c.Brokers, ",") }

func (c Cluster) tls() (*tls.Config, error) {
	if !c.TLS {
		return nil, nil
	}
	config, err := secure.ClientFiles{CA: c.CA, Cert: c.Cert, Key: c.Key}.Config()
	if err != nil {
		return nil, fmt.Errorf("TLS of Kafka: %w", err)
	}
	return config, nil
}

func (c Cluster) sasl() (sasl.Mechanism, error) {
	if c.User == "" {
		return nil, nil
	}
	switch strings.ToUpper(c.Mechanism) {
	case "PLAIN":
		return plain.Mechanism{Username: c.User, Password: c.Password}, nil
	case "SCRAM-SHA-256":
		return scram.Mechanism(scram.SHA256, c.User, c.Password)
	case "", "SCRAM-SHA-512":
		return scram.Mechanism(scram.SHA512, c.User, c.Password)
	}
	return nil, fmt.Errorf("Kafka SASL mechanism %q is not one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512", c.Mechanism)
}

func (c Cluster) transport() (*kafkago.Transport, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	encryption, err := c.tls()
	if err != nil {
		return nil, err
	}
	mechanism, err := c.sasl()
	if err != nil {
		return nil, err
	}
	return &kafkago.Transport{ClientID: "kvwhatif", DialTimeout: dialTimeout, TLS: encryption, SASL: mechanism}, nil
}

// client is for administrative questions; close releases its connections.
func (c Cluster) client() (*kafkago.Client, func(), error) {
	transport, err := c.transport()
	if err != nil {
		return nil, nil, err
	}
	return &kafkago.Client{Addr: c.addr(), Transport: transport, Timeout: askTimeout}, transport.CloseIdleConnections, nil
}

func (c Cluster) dialer() (*kafkago.Dialer, error) {
	encryption, err := c.tls()
	if err != nil {
		return nil, err
	}
	mechanism, err := c.sasl()
	if err != nil {
		return nil, err
	}
	return &kafkago.Dialer{ClientID: "kvwhatif", Timeout: dialTimeout, DualStack: true, TLS: encryption, SASLMechanism: mechanism}, nil
}

package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/kvwhatif/kvwhatif/internal/fault"
)

// Class and Error are those of package fault. An Error's Code is Kafka's.
type (
	// Class says what a caller can do about an error.
	Class = fault.Class
	// Error is an error of Kafka on one line, with its class.
	Error = fault.Error
)

// The two classes.
const (
	Retryable = fault.Retryable // keep the data and send it again
	Permanent = fault.Permanent // say so and stop
)

// ErrBusy is wrapped by the error of a Produce that found no room in flight:
// tell the sender to wait.
var ErrBusy = errors.New("too many bytes wait for Kafka")

// IsRetryable says whether trying again later can help. It is false for nil,
// and for the end of the caller's own context.
func IsRetryable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	return Classify(err).Class == Retryable
}

// permanent are the codes that another attempt cannot change. UNKNOWN (-1),
// which kafka-go calls permanent, is not among them: the embedded broker
// answers so when its disk is full.
var permanent = map[kafkago.Error]string{
	kafkago.MessageSizeTooLarge:         "the message is larger than the topic's max.message.bytes",
	kafkago.RecordListTooLarge:          "the batch is larger than the broker's segment",
	kafkago.InvalidTopic:                "the topic's name is not allowed",
	kafkago.InvalidRecord:               "the broker refused the record",
	kafkago.TopicAuthorizationFailed:    "the Kafka user may not use this topic: grant it",
	kafkago.GroupAuthorizationFailed:    "the Kafka user may not use this consumer group: grant it",
	kafkago.ClusterAuthorizationFailed:  "the Kafka user may not administer the cluster: grant it, or create the topics by hand",
	kafkago.SASLAuthenticationFailed:    "Kafka refused the user or password",
	kafkago.UnsupportedSASLMechanism:    "Kafka does not offer this SASL mechanism",
	kafkago.UnsupportedVersion:          "the Kafka version is not supported",
	kafkago.PolicyViolation:             "a policy of the Kafka cluster forbids it",
	kafkago.InvalidReplicationFactor:    "Kafka has fewer brokers than the replication asked for",
	kafkago.InvalidPartitionNumber:      "Kafka refuses the number of partitions",
	kafkago.InvalidConfiguration:        "Kafka refuses the topic's configuration",
	kafkago.InvalidRequiredAcks:         "Kafka refuses to acknowledge by all replicas",
	kafkago.UnsupportedCompressionType:  "Kafka does not support the compression",
	kafkago.UnsupportedForMessageFormat: "the topic's message format is too old",
}

// Classify turns any error of the client library into one line with its class.
func Classify(err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	var each kafkago.WriteErrors
	if errors.As(err, &each) {
		return classifyWrites(each, err)
	}
	var large kafkago.MessageTooLargeError
	if errors.As(err, &large) {
		return &Error{Class: Permanent, Err: err, Text: fmt.Sprintf("Kafka: a message of %d bytes is too large", len(large.Message.Value))}
	}
	var code kafkago.Error
	if errors.As(err, &code) {
		if advice, ok := permanent[code]; ok {
			return &Error{Class: Permanent, Code: int(code), Err: err, Text: fmt.Sprintf("Kafka: %s (%s)", advice, code.Title())}
		}
		if code == kafkago.Unknown {
			return &Error{Class: Retryable, Code: int(code), Err: err, Text: "Kafka could not write (UNKNOWN): see its log; its disk may be full"}
		}
		return &Error{Class: Retryable, Code: int(code), Err: err, Text: fmt.Sprintf("Kafka: %s (code %d)", code.Title(), int(code))}
	}
	return classifyTransport(err)
}

// classifyWrites is permanent if any message is, for the whole call is what a
// caller sends again.
func classifyWrites(each kafkago.WriteErrors, err error) *Error {
	var worst *Error
	failed := 0
	for _, one := range each {
		if one == nil {
			continue
		}
		failed++
		if e := Classify(one); worst == nil || e.Class > worst.Class {
			worst = e
		}
	}
	if worst == nil {
		return &Error{Err: err, Text: "Kafka: " + err.Error()}
	}
	return &Error{Class: worst.Class, Code: worst.Code, Err: err, Text: fmt.Sprintf("%s; %d of %d messages not acknowledged", worst.Text, failed, len(each))}
}

func classifyTransport(err error) *Error {
	e := &Error{Err: err, Text: "Kafka: " + strings.Join(strings.Fields(err.Error()), " ")}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Text = "Kafka is not running at its address: connection refused"
	case errors.Is(err, context.DeadlineExceeded):
		e.Text = "Kafka did not answer in time"
	}
	return e
}

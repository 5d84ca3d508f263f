package app

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/kvwhatif/kvwhatif/collector/extract"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

const (
	// retryChunk and retryBytes bound what is sent at once.
	retryChunk = 500
	retryBytes = 4 << 20
	// askAbove is how many letters are retried without a question.
	askAbove = 10
)

// RetryOptions says what is retried.
type RetryOptions struct {
	Filter   LetterFilter
	DryRun   bool
	Ask      func(letters int) error // before much is done; nil: do not ask
	Progress Progress
}

// RetryOutcome is what became of one letter.
type RetryOutcome struct {
	ID      string `json:"id"`
	Outcome string `json:"outcome"` // sent, refused, or the state for which it was not retried
	Code    string `json:"code,omitempty"`
	Reason  string `json:"reason,omitempty"` // of a new refusal, or why it was not retried
}

// RetryResult is what `dlq retry` did, or with DryRun would have done.
type RetryResult struct {
	DryRun  bool           `json:"dry_run"`
	Sent    int            `json:"sent"`
	Refused int            `json:"refused_again"`
	Skipped int            `json:"not_retried"`
	Letters []RetryOutcome `json:"letters"`
}

// RetryLetters puts dead letters through the door again. It may be ended and begun
// again at any point: parts merge by their span id, so none counts twice. A letter
// is marked only once its parts are acknowledged. One that is refused again becomes
// a new letter, whose record has one retry more.
func RetryLetters(ctx context.Context, s *Settings, o RetryOptions, log *slog.Logger) (*RetryResult, error) {
	cluster, err := deadLetters(s)
	if err != nil {
		return nil, err
	}
	x, err := readLetters(ctx, cluster)
	if err != nil {
		return nil, err
	}
	chosen, err := x.selected(&o.Filter)
	if err != nil {
		return nil, err
	}
	r := &retrier{result: RetryResult{DryRun: o.DryRun, Letters: []RetryOutcome{}}, progress: o.Progress, now: time.Now}
	open := r.skip(chosen)
	if o.Ask != nil && !o.DryRun && (len(open) > askAbove || len(open) > 0 && o.Filter.anything()) {
		if err := o.Ask(len(open)); err != nil {
			return nil, err
		}
	}
	if len(open) == 0 {
		return &r.result, nil
	}
	writer, err := kafka.NewWriter(kafka.WriterConfig{Cluster: cluster, Logger: log})
	if err != nil {
		return nil, err
	}
	defer writer.Close()
	r.writer, r.total = writer, len(open)
	err = fetchLetters(ctx, cluster, open, func(letter *Letter, l *wire.DeadLetter) error { return r.one(ctx, letter, l) })
	if err == nil {
		err = r.flush(ctx)
	}
	if err != nil {
		return &r.result, fmt.Errorf("retried %d of %d dead letters: %w: run it again, none is doubled", r.result.Sent+r.result.Refused, len(open), err)
	}
	return &r.result, nil
}

// retrier retries letters in chunks.
type retrier struct {
	writer   *kafka.Writer
	progress Progress
	now      func() time.Time
	total    int
	result   RetryResult

	parts, after []kafka.Message // of the chunk: to the parts; marks and new letters
	outcomes     []RetryOutcome
	bytes        int
}

// skip notes the letters that are not retried, and gives the others.
func (r *retrier) skip(chosen []*Letter) (open []*Letter) {
	for _, l := range chosen {
		if l.State == LetterOpen {
			open = append(open, l)
			continue
		}
		r.result.Skipped++
		r.result.Letters = append(r.result.Letters, RetryOutcome{ID: l.ID, Outcome: l.State, Reason: adviceFor(l)})
	}
	return open
}

// one takes in a letter.
func (r *retrier) one(ctx context.Context, letter *Letter, l *wire.DeadLetter) error {
	now := r.now().UnixNano()
	messages, code, reason := throughTheDoor(l, now)
	outcome := RetryOutcome{ID: letter.ID, Outcome: wire.RetrySent, Code: code, Reason: reason}
	if code != "" {
		outcome.Outcome = wire.RetryRefused
	}
	mark := wire.RetryMark(letter.Letter.Topic, letter.Letter.Partition, letter.Letter.Offset, outcome.Outcome, l.SHA256, now)
	r.after = append(r.after, kafka.Message{Value: wire.AppendDeadLetter(nil, mark)})
	if code != "" {
		again := *l
		again.Code, again.Reason, again.AtNanos = code, reason, now
		r.after = append(r.after, kafka.Message{Value: wire.AppendDeadLetter(nil, &again)})
	}
	for _, m := range messages {
		r.parts = append(r.parts, kafka.Message{Value: m})
	}
	r.outcomes = append(r.outcomes, outcome)
	if r.bytes += 2 * len(l.Bytes); len(r.outcomes) >= retryChunk || r.bytes >= retryBytes {
		return r.flush(ctx)
	}
	return nil
}

// flush sends the chunk: first the parts, then what says that they were sent.
func (r *retrier) flush(ctx context.Context) error {
	if !r.result.DryRun {
		if err := r.produce(ctx, schema.TopicParts, r.parts); err != nil {
			return err
		}
		if err := r.produce(ctx, schema.TopicDead, r.after); err != nil {
			return err
		}
	}
	for _, o := range r.outcomes {
		if o.Outcome == wire.RetrySent {
			r.result.Sent++
		} else {
			r.result.Refused++
		}
	}
	r.result.Letters = append(r.result.Letters, r.outcomes...)
	r.parts, r.after, r.outcomes, r.bytes = nil, nil, nil, 0
	if r.progress != nil {
		r.progress("retrying dead letters", r.result.Sent+r.result.Refused, r.total)
	}
	return nil
}

func (r *retrier) produce(ctx context.Context, topic string, messages []kafka.Message) error {
	if len(messages) == 0 {
		return nil
	}
	if err := r.writer.Produce(ctx, topic, messages...); err != nil {
		return fmt.Errorf("send to topic %s: %w", topic, err)
	}
	return nil
}

// throughTheDoor gives the messages that a record is now, or why it is refused.
func throughTheDoor(l *wire.DeadLetter, nowNanos int64) (messages [][]byte, code, reason string) {
	if l.Source == wire.SourceOTLP {
		return extractAgain(l.Bytes, nowNanos)
	}
	if l.Index < 0 || codeOf(l) == "framing" {
		message := wholeMessage(l)
		for _, err := range wire.Frames(message) {
			if err != nil {
				again := *l
				again.Code, again.Reason = "", err.Error()
				return nil, codeOf(&again), err.Error()
			}
		}
		return [][]byte{message}, "", ""
	}
	var part schema.Part
	if err := new(wire.Decoder).Part(l.Bytes, &part); err != nil {
		return nil, "decode", err.Error()
	}
	if part.Trace == (schema.TraceID{}) || part.Span == (schema.SpanID{}) {
		return nil, "invalid", "it has no trace id or no span id"
	}
	return [][]byte{wire.MessageOf(l.Bytes)}, "", ""
}

func extractAgain(request []byte, nowNanos int64) (messages [][]byte, code, reason string) {
	var out extract.Result
	if err := extract.Extract(request, extract.DefaultLimits(nowNanos), &out); err != nil {
		return nil, string(extract.CodeUndecodable), err.Error()
	}
	if len(out.Rejected) > 0 {
		return nil, string(out.Rejected[0].Code), out.Rejected[0].Reason
	}
	if len(out.Parts) == 0 {
		return nil, "unknown_span", "no adapter of this version knows the span"
	}
	var batcher wire.Batcher
	for i := range out.Parts {
		if err := batcher.Add(&out.Parts[i]); err != nil {
			return nil, string(extract.CodeTooLarge), err.Error()
		}
	}
	return batcher.Messages(), "", ""
}

// Text says what was done.
func (r *RetryResult) Text() string {
	var b strings.Builder
	for _, l := range r.Letters {
		if l.Outcome != wire.RetrySent {
			fmt.Fprintf(&b, "%s  %-8s  %s\n", l.ID, l.Outcome, l.Reason)
		}
	}
	verb := ""
	if r.DryRun {
		verb = "dry run, nothing was sent: "
	}
	fmt.Fprintf(&b, "%s%d sent, %d refused again, %d not retried\n", verb, r.Sent, r.Refused, r.Skipped)
	return b.String()
}

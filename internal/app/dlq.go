package app

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// What became of a dead letter.
const (
	LetterOpen     = "open"     // refused, and can be retried
	LetterSent     = "sent"     // retried, and through the door
	LetterCut      = "cut"      // over 64 KiB: its end is lost, it can not be retried
	LetterConflict = "conflict" // another content of its span is in the tables: it is not retried
)

// letterIDDigits is how many digits of the SHA-256 name a letter.
const letterIDDigits = 12

// Letter is a record that was refused, without its bytes: of several copies, the
// newest. Copies come from senders that send again, and from retries that failed.
type Letter struct {
	ID       string    `json:"id"` // first digits of SHA256
	State    string    `json:"state"`
	At       time.Time `json:"at"`
	Code     string    `json:"code"`   // class of the reason
	Reason   string    `json:"reason"` // for people
	Source   string    `json:"source"` // otlp or kafka
	Adapter  string    `json:"adapter,omitempty"`
	From     *Place    `json:"from,omitempty"` // where a consumer found it; absent for what was refused at the door
	Index    int64     `json:"index"`          // of the part in its message, of the span in its request; −1: the whole message
	SHA256   string    `json:"sha256"`
	Length   int64     `json:"length_bytes"` // of the record as it was refused
	Kept     int       `json:"kept_bytes"`
	Copies   int       `json:"copies"`   // letters of this record
	Attempts int       `json:"attempts"` // retries so far
	Letter   Place     `json:"letter"`   // of the newest copy in the dead-letter topic
}

// Place is a message in Kafka.
type Place struct {
	Topic     string `json:"topic"`
	Partition int64  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// String is topic/partition@offset.
func (p Place) String() string { return fmt.Sprintf("%s/%d@%d", p.Topic, p.Partition, p.Offset) }

// LetterFilter selects letters; its zero value selects those that are not yet
// retried with success.
type LetterFilter struct {
	IDs       []string  // or beginnings of them; of 4 digits at least
	Since     time.Time // refused then or later
	Reason    string    // a code, or a piece of the reason
	Adapter   string
	Source    string // otlp or kafka
	Partition int    // of the topic where a consumer found it; −1: any
	All       bool   // those that were retried with success too
}

// anything says whether the filter leaves nothing out.
func (f *LetterFilter) anything() bool {
	return len(f.IDs) == 0 && f.Since.IsZero() && f.Reason == "" && f.Adapter == "" && f.Source == "" && f.Partition < 0
}

func (f *LetterFilter) takes(l *Letter) bool {
	if l.State == LetterSent && !f.All && len(f.IDs) == 0 {
		return false
	}
	if f.Partition >= 0 && (l.From == nil || l.From.Partition != int64(f.Partition)) {
		return false
	}
	return !l.At.Before(f.Since) && (f.Adapter == "" || f.Adapter == l.Adapter) && (f.Source == "" || f.Source == l.Source) &&
		(f.Reason == "" || f.Reason == l.Code || strings.Contains(l.Reason, f.Reason)) && f.names(l)
}

func (f *LetterFilter) names(l *Letter) bool {
	return len(f.IDs) == 0 || slices.ContainsFunc(f.IDs, func(id string) bool { return strings.HasPrefix(l.SHA256, id) })
}

// letterIndex is what the dead-letter topic says: each record once.
type letterIndex struct {
	letters    map[[32]byte]*Letter
	sent       map[Place]bool // letters that a retry sent
	attempts   map[[32]byte]int
	unreadable int // messages that are no dead letters
}

// deadLetters is the cluster of the settings, or of a `kvwhatif up` in their
// directory.
func deadLetters(s *Settings) (kafka.Cluster, error) {
	full, err := s.attached()
	if err != nil {
		return kafka.Cluster{}, err
	}
	if len(full.Kafka.Brokers) == 0 {
		return kafka.Cluster{}, fmt.Errorf("no Kafka: give --kafka HOST:PORT, or --dir of a running `kvwhatif up` (nothing ran in %s)", s.Dir)
	}
	return full.Kafka, nil
}

// readLetters goes through the dead-letter topic once.
func readLetters(ctx context.Context, cluster kafka.Cluster) (*letterIndex, error) {
	x := &letterIndex{letters: map[[32]byte]*Letter{}, sent: map[Place]bool{}, attempts: map[[32]byte]int{}}
	err := kafka.Scan(ctx, cluster, schema.TopicDead, func(m kafka.Message) error {
		var l wire.DeadLetter
		if wire.DecodeDeadLetter(m.Value, &l) != nil {
			x.unreadable++
			return nil
		}
		x.add(m, &l)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the dead letters: %w: is Kafka running at %s?", err, cluster)
	}
	x.settle()
	return x, nil
}

func (x *letterIndex) add(m kafka.Message, l *wire.DeadLetter) {
	if l.Source == wire.SourceRetry {
		x.attempts[l.SHA256]++
		if l.Code == wire.RetrySent {
			x.sent[Place{l.Topic, l.Partition, l.Offset}] = true
		}
		return
	}
	fresh := letterOf(m, l)
	old := x.letters[l.SHA256]
	if old == nil {
		x.letters[l.SHA256] = fresh
		return
	}
	copies := old.Copies + 1
	if fresh.Letter.Partition == old.Letter.Partition || fresh.At.After(old.At) {
		*old = *fresh
	}
	old.Copies = copies
}

func letterOf(m kafka.Message, l *wire.DeadLetter) *Letter {
	sum := hex.EncodeToString(l.SHA256[:])
	out := &Letter{ID: sum[:letterIDDigits], State: LetterOpen, At: time.Unix(0, l.AtNanos).UTC(), Code: codeOf(l), Reason: l.Reason,
		Source: l.Source, Adapter: l.Adapter, Index: l.Index, SHA256: sum, Length: l.Length, Kept: len(l.Bytes), Copies: 1,
		Letter: Place{m.Topic, int64(m.Partition), m.Offset}}
	if l.Source == wire.SourceKafka {
		out.From = &Place{l.Topic, l.Partition, l.Offset}
	}
	switch {
	case l.Cut():
		out.State = LetterCut
	case out.Code == "conflict":
		out.State = LetterConflict
	}
	return out
}

// codeOf gives letters without a code the one that their text stands for.
func codeOf(l *wire.DeadLetter) string {
	switch {
	case l.Code != "":
		return l.Code
	case strings.Contains(l.Reason, wire.ErrVersion.Error()):
		return "version"
	case strings.HasPrefix(l.Reason, "read the frames"):
		return "framing"
	case strings.Contains(l.Reason, "came before with other content"):
		return "conflict"
	case l.Source == wire.SourceKafka && l.Adapter == "":
		return "decode"
	}
	return "invalid"
}

// settle works out what needs all of the topic.
func (x *letterIndex) settle() {
	for sum, l := range x.letters {
		l.Attempts = x.attempts[sum]
		if x.sent[l.Letter] {
			l.State = LetterSent
		}
	}
}

// selected are the letters that a filter takes, the newest first. An ID that names
// none, or several, is an error.
func (x *letterIndex) selected(f *LetterFilter) ([]*Letter, error) {
	var out []*Letter
	for _, l := range x.letters {
		if f.takes(l) {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b *Letter) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.SHA256, b.SHA256)) })
	var errs []error
	for _, id := range f.IDs {
		errs = append(errs, onlyOne(id, x.letters))
	}
	return out, errors.Join(errs...)
}

func onlyOne(id string, letters map[[32]byte]*Letter) error {
	n := 0
	for _, l := range letters {
		if strings.HasPrefix(l.SHA256, id) {
			n++
		}
	}
	switch {
	case len(id) < 4:
		return fmt.Errorf("dead letter %q: give 4 digits of its ID or more", id)
	case n == 0:
		return fmt.Errorf("dead letter %s is not there (any more): see `kvwhatif dlq list --all`", id)
	case n > 1:
		return fmt.Errorf("dead letter %s could be any of %d: give more digits", id, n)
	}
	return nil
}

// LetterCount counts letters of one kind.
type LetterCount struct {
	Source string `json:"source"`
	Code   string `json:"code"`
	State  string `json:"state"`
	N      int    `json:"letters"`
}

// LetterList is what `dlq list` shows.
type LetterList struct {
	Letters    []*Letter     `json:"letters"`
	Total      int           `json:"total"`  // that the filter takes; more than Letters where a limit cut them
	Counts     []LetterCount `json:"counts"` // of Total, the most first
	Unreadable int           `json:"unreadable"`
}

// Letters lists the dead letters that a filter takes, the newest first; limit 0 is
// no limit.
func Letters(ctx context.Context, s *Settings, f LetterFilter, limit int) (*LetterList, error) {
	cluster, err := deadLetters(s)
	if err != nil {
		return nil, err
	}
	x, err := readLetters(ctx, cluster)
	if err != nil {
		return nil, err
	}
	all, err := x.selected(&f)
	if err != nil {
		return nil, err
	}
	out := &LetterList{Letters: all, Total: len(all), Counts: countLetters(all), Unreadable: x.unreadable}
	if limit > 0 && len(all) > limit {
		out.Letters = all[:limit]
	}
	if out.Letters == nil {
		out.Letters, out.Counts = []*Letter{}, []LetterCount{}
	}
	return out, nil
}

func countLetters(letters []*Letter) []LetterCount {
	n := map[LetterCount]int{}
	for _, l := range letters {
		n[LetterCount{Source: l.Source, Code: l.Code, State: l.State}]++
	}
	out := make([]LetterCount, 0, len(n))
	for c, k := range n {
		c.N = k
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b LetterCount) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Source+a.Code+a.State, b.Source+b.Code+b.State))
	})
	return out
}

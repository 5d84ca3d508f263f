package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kvwhatif/kvwhatif/schema"
)

const (
	maxInterned      = 4096 // strings that a Decoder keeps; then it starts anew
	maxInternedBytes = 128  // longer ones are not kept
)

// Decoder decodes parts and keeps one copy of the strings that come again and
// again (models, workers, links), so that they cost no allocation. Its zero
// value is ready. It is not for concurrent use.
type Decoder struct {
	strings map[string]string
}

// DecodePart decodes the encoding of one Part into p, as Decoder.Part does,
// without keeping strings.
func DecodePart(b []byte, p *schema.Part) error {
	return (*Decoder)(nil).Part(b, p)
}

// Part decodes the encoding of one Part into p. It overwrites all of p and
// reuses the capacity of its slices; nothing in p points into b afterwards. The
// error says which field could not be read; p is then of no use.
func (d *Decoder) Part(b []byte, p *schema.Part) error {
	*p = schema.Part{Decision: schema.Decision{
		PrefixBlocks: p.Decision.PrefixBlocks[:0], Candidates: p.Decision.Candidates[:0]}}
	c := over(b)
	for c.Next() {
		c.Err = d.partField(c.at(), p)
	}
	if c.Err != nil {
		return c.within("decode part")
	}
	if p.Kind == 0 {
		return errors.New("decode part: it has no kind")
	}
	return nil
}

func (d *Decoder) partField(f *field, p *schema.Part) error {
	switch f.Number {
	case 1:
		return enum(f, &p.Kind, schema.KindReplay)
	case 2:
		return d.text(f, &p.Adapter)
	case 3:
		return d.text(f, &p.Service)
	case 4:
		return f.id(p.Trace[:])
	case 5:
		return f.id(p.Span[:])
	case 6:
		return f.id(p.Parent[:])
	case 7:
		return f.nanos(&p.StartNanos)
	case 8:
		return f.nanos(&p.EndNanos)
	case 9:
		p.RequestID = string(f.Bytes) // comes once: not worth keeping
		return f.is(protowire.BytesType)
	case 10:
		return d.decision(f, &p.Decision)
	case 11:
		return d.observed(f, &p.Observed)
	case 12:
		return d.engine(f, &p.Engine)
	case 13:
		return d.transfer(f, &p.Transfer)
	case 14:
		return d.replay(f, &p.Replay)
	}
	return nil // a field of a later revision
}

func (d *Decoder) decision(f *field, x *schema.Decision) error {
	c := f.message()
	for c.Next() {
		c.Err = d.decisionField(c.at(), x)
	}
	return c.within("decision")
}

func (d *Decoder) decisionField(f *field, x *schema.Decision) error {
	text, counts := decisionText(x), decisionCounts(x)
	if i, ok := f.among(1, len(text)); ok {
		return d.text(f, text[i])
	}
	if i, ok := f.among(11, len(counts)); ok {
		return f.count(counts[i])
	}
	switch f.Number {
	case 8:
		return enum(f, &x.Path, schema.PathResident)
	case 9:
		return enum(f, &x.SourceTier, schema.TierPeer)
	case 10:
		return f.int(&x.Revision)
	case 17:
		return f.seconds(&x.StateAge)
	case 18:
		return blocks(f, &x.PrefixBlocks)
	case 19:
		return d.addCandidate(f, x)
	}
	return nil
}

// blocks reads hashes, packed or one by one, as protobuf allows both.
func blocks(f *field, dst *[]int64) error {
	if f.Type == protowire.Fixed64Type {
		*dst = append(*dst, int64(f.Num))
		return nil
	}
	if len(f.Bytes)%8 != 0 {
		return fmt.Errorf("field %d: %d bytes are no list of fixed64", f.Number, len(f.Bytes))
	}
	for b := f.Bytes; len(b) > 0; b = b[8:] {
		*dst = append(*dst, int64(binary.LittleEndian.Uint64(b)))
	}
	return f.is(protowire.BytesType)
}

func (d *Decoder) addCandidate(f *field, x *schema.Decision) error {
	n := len(x.Candidates)
	if n == MaxCandidates {
		return fmt.Errorf("more than %d candidates", MaxCandidates)
	}
	x.Candidates = append(x.Candidates, schema.Candidate{})
	return d.candidate(f, &x.Candidates[n])
}

func (d *Decoder) candidate(f *field, x *schema.Candidate) error {
	c := f.message()
	for c.Next() {
		c.Err = d.candidateField(c.at(), x)
	}
	return c.within("candidate")
}

func (d *Decoder) candidateField(f *field, x *schema.Candidate) error {
	text, ints, floats := candidateText(x), candidateInts(x), candidateFloats(x)
	if i, ok := f.among(1, len(text)); ok {
		return d.text(f, text[i])
	}
	if i, ok := f.among(6, len(ints)); ok {
		return f.int(ints[i])
	}
	if i, ok := f.among(10, len(floats)); ok {
		return f.float(floats[i])
	}
	switch f.Number {
	case 4:
		return enum(f, &x.Path, schema.PathResident)
	case 5:
		return enum(f, &x.Tier, schema.TierPeer)
	}
	return nil
}

func (d *Decoder) observed(f *field, x *schema.Observed) error {
	c := f.message()
	for c.Next() {
		c.Err = d.observedField(c.at(), x)
	}
	return c.within("observed")
}

func (d *Decoder) observedField(f *field, x *schema.Observed) error {
	seconds := observedSeconds(x)
	if i, ok := f.among(2, len(seconds)); ok {
		return f.seconds(seconds[i])
	}
	if f.Number == 1 {
		return f.count(&x.Bytes)
	}
	return nil
}

func (d *Decoder) engine(f *field, x *schema.Engine) error {
	c := f.message()
	for c.Next() {
		c.Err = d.engineField(c.at(), x)
	}
	return c.within("engine")
}

func (d *Decoder) engineField(f *field, x *schema.Engine) error {
	counts, seconds := engineCounts(x), engineSeconds(x)
	if i, ok := f.among(2, len(counts)); ok {
		return f.count(counts[i])
	}
	if i, ok := f.among(5, len(seconds)); ok {
		return f.seconds(seconds[i])
	}
	if f.Number == 1 {
		return d.text(f, &x.Model)
	}
	return nil
}

func (d *Decoder) transfer(f *field, x *schema.Transfer) error {
	c := f.message()
	for c.Next() {
		c.Err = d.transferField(c.at(), x)
	}
	return c.within("transfer")
}

func (d *Decoder) transferField(f *field, x *schema.Transfer) error {
	text, counts, seconds := transferText(x), transferCounts(x), transferSeconds(x)
	if i, ok := f.among(1, len(text)); ok {
		return d.text(f, text[i])
	}
	if i, ok := f.among(5, len(counts)); ok {
		return f.count(counts[i])
	}
	if i, ok := f.among(7, len(seconds)); ok {
		return f.seconds(seconds[i])
	}
	if f.Number == 4 {
		return enum(f, &x.Tier, schema.TierPeer)
	}
	return nil
}

func (d *Decoder) replay(f *field, x *schema.Replay) error {
	c := f.message()
	for c.Next() {
		c.Err = d.replayField(c.at(), x)
	}
	return c.within("replay")
}

func (d *Decoder) replayField(f *field, x *schema.Replay) error {
	text, counts, seconds := replayText(x), replayCounts(x), replaySeconds(x)
	if i, ok := f.among(1, len(text)); ok {
		return d.text(f, text[i])
	}
	if i, ok := f.among(8, len(counts)); ok {
		return f.count(counts[i])
	}
	if i, ok := f.among(12, len(seconds)); ok {
		return f.seconds(seconds[i])
	}
	switch f.Number {
	case 3:
		return enum(f, &x.Path, schema.PathResident)
	case 4:
		return enum(f, &x.Leg, schema.LegControl)
	case 5:
		return f.id(x.Of[:])
	case 6:
		return f.id(x.OfSpan[:])
	case 7:
		return f.float(&x.Inclusion)
	}
	return nil
}

// text reads a string, and keeps it if there is a Decoder to keep it.
func (d *Decoder) text(f *field, dst *string) error {
	if d == nil || len(f.Bytes) > maxInternedBytes {
		*dst = string(f.Bytes)
		return f.is(protowire.BytesType)
	}
	s, ok := d.strings[string(f.Bytes)]
	if !ok {
		s = string(f.Bytes)
		if d.strings == nil || len(d.strings) == maxInterned {
			d.strings = make(map[string]string)
		}
		d.strings[s] = s
	}
	*dst = s
	return f.is(protowire.BytesType)
}

package sample

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/kvwhatif/kvwhatif/schema"
)

// Draw is one leg that a plan asks for.
type Draw struct {
	Leg       schema.Leg
	Path      schema.Path // that the leg runs
	Candidate int         // its index among the decision's candidates
	Inclusion float64     // the probability with which this leg was drawn, (0, 1]
	Stratum   Stratum
}

// Eligible says why a part can not be replayed; "" where it can.
func Eligible(part *schema.Part) string {
	d := &part.Decision
	switch {
	case part.Kind != schema.KindContract:
		return "no decision"
	case d.Path == schema.PathNone:
		return "no chosen path"
	case !d.Chosen.OK || d.Chosen.V < 0 || d.Chosen.V >= int64(len(d.Candidates)):
		return "no chosen candidate"
	case d.Candidates[d.Chosen.V].Path != d.Path:
		return "chosen candidate is of another path"
	}
	return ""
}

// Draw gives the legs of a decision: at most one rejected, at most one control.
// A decision without an alternative has neither: it is in no comparison. It is a
// function of the plan and the record alone.
func (p *Plan) Draw(part *schema.Part) []Draw {
	if Eligible(part) != "" {
		return nil
	}
	var out []Draw
	if !hasAlternative(&part.Decision) {
		return nil
	}
	s, id := p.StratumOf(&part.Decision), part.RowID()
	if p.uniform("sampled", id) < p.Rate(s) {
		b, candidate := p.alternative(part, id)
		out = append(out, Draw{schema.LegRejected, b, candidate, p.Inclusion(part, b), s})
	}
	if rate := p.ControlRate(part.Decision.Path); p.uniform("control", id) < rate {
		out = append(out, Draw{schema.LegControl, part.Decision.Path, int(part.Decision.Chosen.V), rate, s})
	}
	return out
}

// Inclusion is π(b), the probability with which the decision's alternative of
// path b is drawn: the stratum's rate times b's share of the weights of the path
// kinds that the decision had. It is 0 only where there is no such alternative.
func (p *Plan) Inclusion(part *schema.Part, b schema.Path) float64 {
	d := &part.Decision
	by := Alternatives(d)
	if Eligible(part) != "" || int(b) >= NumPaths || b == d.Path || by[b] < 0 {
		return 0
	}
	return p.Rate(p.StratumOf(d)) * p.weight(b) / p.total(by, d.Path)
}

func hasAlternative(d *schema.Decision) bool {
	for b, i := range Alternatives(d) {
		if i >= 0 && schema.Path(b) != d.Path {
			return true
		}
	}
	return false
}

func (p *Plan) total(by [NumPaths]int, chosen schema.Path) (sum float64) {
	for b, i := range by {
		if i >= 0 && schema.Path(b) != chosen {
			sum += p.weight(schema.Path(b))
		}
	}
	return sum
}

// alternative draws the path kind of a sampled decision that had one.
func (p *Plan) alternative(part *schema.Part, id schema.RowID) (schema.Path, int) {
	by, chosen := Alternatives(&part.Decision), part.Decision.Path
	left := p.uniform("alternative", id) * p.total(by, chosen)
	var last schema.Path
	for b, i := range by {
		if i < 0 || schema.Path(b) == chosen {
			continue
		}
		last = schema.Path(b)
		if left -= p.weight(last); left < 0 {
			break
		}
	}
	return last, by[last]
}

// uniform is a number in [0, 1) that only the salt's holder can foretell: the
// first 53 bits of HMAC-SHA256(salt, purpose, id). Bits of the trace id itself
// would correlate with the sampling of tracers upstream.
func (p *Plan) uniform(purpose string, id schema.RowID) float64 {
	sum := p.mac(purpose, id[:])
	return float64(binary.BigEndian.Uint64(sum)>>11) / (1 << 53)
}

func (p *Plan) mac(purpose string, message []byte) []byte {
	m := hmac.New(sha256.New, p.salt)
	m.Write([]byte(purpose))
	m.Write([]byte{0})
	m.Write(message)
	return m.Sum(nil)
}

// LegSalt is a fresh cache salt for one leg, 32 hex digits, so that its tokens
// meet no cache of production nor of another leg. It is the same each time it is
// asked for.
func (p *Plan) LegSalt(legID string) string {
	return hex.EncodeToString(p.mac("leg", []byte(legID))[:16])
}

package sample

import (
	"fmt"
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
)

// Stratum is the group of decisions that share a sampling rate and a completion
// rate. A bucket of −1 is "not known".
type Stratum struct {
	Path   schema.Path // chosen
	Size   int         // schema.SizeBucket of the prefix
	Margin int         // bucket of the predicted relative margin of the alternative
	Tier   schema.Tier // of the source, or of the alternative's where nothing was fetched
	Load   int         // bucket of flows on the link (of requests on the worker, where those are not known)
}

// String is the stratum's name in plans, such as "fetch/size2/margin1/cpu/load0".
func (s Stratum) String() string {
	tier := s.Tier.String()
	if tier == "" {
		tier = "none"
	}
	return fmt.Sprintf("%s/size%d/margin%d/%s/load%d", s.Path, s.Size, s.Margin, tier, s.Load)
}

// StratumOf gives the stratum of a decision under the plan's bounds.
func (p *Plan) StratumOf(d *schema.Decision) Stratum {
	s := Stratum{Path: d.Path, Size: -1, Margin: -1, Tier: d.SourceTier, Load: -1}
	if d.TokensPrefix.OK {
		s.Size = schema.SizeBucket(d.TokensPrefix.V)
	}
	if alt := d.Alternative(); alt >= 0 {
		b, a := d.Candidates[alt], d.Candidates[d.Chosen.V]
		s.Margin = bucket(p.params.MarginBounds, margin(b.TTFT, a.TTFT))
		if s.Tier == schema.TierNone {
			s.Tier = b.Tier
		}
	}
	switch {
	case d.LinkFlows.OK:
		s.Load = bucket(p.params.LoadBounds, float64(d.LinkFlows.V))
	case d.WorkerActive.OK:
		s.Load = bucket(p.params.LoadBounds, float64(d.WorkerActive.V))
	}
	return s
}

// margin is (b − a)/a to six digits, so that a margin of a half is not beyond a half
// by the last bit of what is stored.
func margin(b, a float64) float64 {
	b, a = stored(b), stored(a)
	return math.Round(1e6*(b-a)/a) / 1e6
}

// stored is x as the tables keep it, in single precision: a draw that is repeated
// from a row must fall into the stratum that it was drawn in.
func stored(x float64) float64 { return float64(float32(x)) }

// bucket is the index of the first bound that is at least x, len(bounds) past
// the last, −1 where x is NaN.
func bucket(bounds []float64, x float64) int {
	if math.IsNaN(x) {
		return -1
	}
	for i, b := range bounds {
		if x <= b {
			return i
		}
	}
	return len(bounds)
}

// NumPaths is one more than the largest path, the length of arrays by path.
const NumPaths = int(schema.PathResident) + 1

// Alternatives gives, by path, the index of the candidate that stands for that
// path kind among those not chosen, and −1 where the decision had none: for
// recompute the one on the chosen worker if there is one, else the one with the
// least predicted TTFT and externality. The chosen path's own entry is the
// choice. A decision without a valid choice has none at all.
func Alternatives(d *schema.Decision) (by [NumPaths]int) {
	for i := range by {
		by[i] = -1
	}
	if !d.Chosen.OK || d.Chosen.V < 0 || d.Chosen.V >= int64(len(d.Candidates)) {
		return by
	}
	own := &d.Candidates[d.Chosen.V]
	for i := range d.Candidates {
		c := &d.Candidates[i]
		if c.Path == schema.PathNone || int(c.Path) >= NumPaths || c.Path == own.Path || math.IsNaN(c.TTFT) {
			continue
		}
		if by[c.Path] < 0 || stands(c, &d.Candidates[by[c.Path]], own.Worker) {
			by[c.Path] = i
		}
	}
	if own.Path != schema.PathNone && int(own.Path) < NumPaths {
		by[own.Path] = int(d.Chosen.V)
	}
	return by
}

// stands tells whether c stands for its path kind rather than other.
func stands(c, other *schema.Candidate, worker string) bool {
	if c.Path == schema.PathRecompute && (c.Worker == worker) != (other.Worker == worker) {
		return c.Worker == worker
	}
	return net(c) < net(other)
}

func net(c *schema.Candidate) float64 {
	ttft, externality := stored(c.TTFT), stored(c.Externality)
	if math.IsNaN(externality) {
		return ttft
	}
	return ttft + externality
}

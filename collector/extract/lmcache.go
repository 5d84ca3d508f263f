package extract

import (
	"strconv"

	"github.com/kvwhatif/kvwhatif/schema"
)

// lmcache reads the span that LMCache's multi-process server writes for each
// look-up, seen with 0.5.6: how many tokens of a request it holds, after it has
// brought what lay in a slower tier to its memory. Bytes and the copy to the GPU
// are in no span of it. Its span "request" repeats the look-up and lasts as long
// as the engine keeps the session: it is ignored.
var lmcache = adapter{
	name:  "lmcache",
	span:  "mp.lookup_prefetch",
	scope: "lmcache_mp.server",
	kind:  schema.KindTransfer,
	rules: rulesOf(sets{
		"session_id":    text(func(p *schema.Part) *string { return &p.RequestID }),
		"hit_tokens":    digits(func(r *reading) *schema.Count { return &r.p.Transfer.Tokens }),
		"l2_hit_tokens": digits(func(r *reading) *schema.Count { return &r.slower }),
	}),
	finish: func(r *reading) *fault {
		p := r.p
		p.Transfer.Operation = "lookup"
		p.Transfer.Duration = schema.Some(float64(p.EndNanos-p.StartNanos) / 1e9)
		if p.Transfer.Tokens.V > 0 && r.slower.OK && r.slower.V == 0 {
			p.Transfer.Tier = schema.TierCPU // what the slower tier is, no span says
		}
		p.RequestID = lmcacheRequestID(p.RequestID)
		return nil
	},
}

// digits is count for a number that is written as text.
func digits(get func(*reading) *schema.Count) rule {
	return by(func(r *reading, v Value) *fault {
		var s string
		if f := r.text(v, &s); f != nil {
			return f
		}
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return faultf(CodeType, "%q is no number", clip([]byte(s)))
		}
		return r.count(Value{Type: TypeInt, bits: uint64(n)}, get(r), r.limits.Count)
	})
}

// lmcacheRequestID makes of a session's id the request id that vLLM told its
// client: vLLM adds "-" and 8 random hex digits to its own id before it gives
// that to LMCache.
func lmcacheRequestID(session string) string {
	const random = 9
	if n := len(session) - random; n > 0 && session[n] == '-' {
		if _, err := strconv.ParseUint(session[n+1:], 16, 32); err == nil {
			session = session[:n]
		}
	}
	return vllmRequestID(session)
}

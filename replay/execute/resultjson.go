package execute

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
)

type observedJSON struct {
	Bytes         *int64   `json:"bytes,omitempty"`
	GPUQueue      *float64 `json:"gpu_queue,omitempty"`
	TransferQueue *float64 `json:"transfer_queue,omitempty"`
	Transfer      *float64 `json:"transfer,omitempty"`
	TransferStart *float64 `json:"transfer_start,omitempty"`
	ExposedStall  *float64 `json:"exposed_stall,omitempty"`
	Restore       *float64 `json:"restore,omitempty"`
	Prefill       *float64 `json:"prefill,omitempty"`
	TTFT          *float64 `json:"ttft,omitempty"`
}

type resultJSON struct {
	StartNanos  int64        `json:"start_unix_nanos"`
	EndNanos    int64        `json:"end_unix_nanos"`
	State       stateJSON    `json:"state"`
	Observed    observedJSON `json:"observed"`
	ModelReplay *float64     `json:"model_replay,omitempty"`
	Cost        Cost         `json:"cost"`
}

// MarshalJSON leaves out what was not observed.
func (r Result) MarshalJSON() ([]byte, error) {
	o := &r.Observed
	return json.Marshal(resultJSON{
		StartNanos: r.StartNanos, EndNanos: r.EndNanos,
		State:       stateJSON{number(r.State.GPUQueue), number(r.State.Flows)},
		ModelReplay: seconds(r.ModelReplay), Cost: r.Cost,
		Observed: observedJSON{
			Bytes: pointer(o.Bytes), GPUQueue: seconds(o.GPUQueue), TransferQueue: seconds(o.TransferQueue),
			Transfer: seconds(o.Transfer), TransferStart: seconds(o.TransferStart), ExposedStall: seconds(o.ExposedStall),
			Restore: seconds(o.Restore), Prefill: seconds(o.Prefill), TTFT: seconds(o.TTFT),
		},
	})
}

// UnmarshalJSON is the inverse of MarshalJSON. A state that is not said is not
// known.
func (r *Result) UnmarshalJSON(b []byte) error {
	nan := number(math.NaN())
	j := resultJSON{State: stateJSON{nan, nan}}
	if err := json.Unmarshal(b, &j); err != nil {
		return fmt.Errorf("read a leg's result: %w", err)
	}
	o := &j.Observed
	*r = Result{
		StartNanos: j.StartNanos, EndNanos: j.EndNanos,
		State:       State{float64(j.State.GPUQueue), float64(j.State.Flows)},
		ModelReplay: option(j.ModelReplay), Cost: j.Cost,
		Observed: schema.Observed{
			Bytes: option(o.Bytes), GPUQueue: option(o.GPUQueue), TransferQueue: option(o.TransferQueue),
			Transfer: option(o.Transfer), TransferStart: option(o.TransferStart), ExposedStall: option(o.ExposedStall),
			Restore: option(o.Restore), Prefill: option(o.Prefill), TTFT: option(o.TTFT),
		},
	}
	return nil
}

func pointer[T any](o schema.Opt[T]) *T {
	if !o.OK {
		return nil
	}
	return &o.V
}

// seconds is pointer for a float, which JSON can not write where it is NaN.
func seconds(o schema.Seconds) *float64 {
	if math.IsNaN(o.V) || math.IsInf(o.V, 0) {
		return nil
	}
	return pointer(o)
}

func option[T any](p *T) schema.Opt[T] {
	if p == nil {
		return schema.Opt[T]{}
	}
	return schema.Some(*p)
}

// Check says what of a result makes no sense; the leg then counts as not run.
func (r *Result) Check() error {
	t := r.Observed.TTFT
	switch {
	case !t.OK || !(t.V >= 0) || math.IsInf(t.V, 1):
		return fmt.Errorf("the result has no valid TTFT: %+v", t)
	case r.EndNanos < r.StartNanos || r.StartNanos <= 0:
		return fmt.Errorf("the result runs from %d to %d", r.StartNanos, r.EndNanos)
	case !(r.Cost.GPUSeconds >= 0) || !(r.Cost.Bytes >= 0) || math.IsInf(r.Cost.GPUSeconds+r.Cost.Bytes, 1):
		return fmt.Errorf("the result's cost is %+v", r.Cost)
	}
	return nil
}

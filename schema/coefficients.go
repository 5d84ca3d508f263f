package schema

import "github.com/kvwhatif/kvwhatif/schema/cost"

// DocumentVersion is the version of the coefficient document's form. A reader
// refuses a document of a higher one.
const DocumentVersion = 1

// Document is the fitted cost model as calibrate publishes it, serve gives it
// out and a coordinator decides by it. It is signed by Ed25519 over its exact
// bytes; no field of it is trusted before the signature is verified.
type Document struct {
	Version      int    `json:"version"`  // DocumentVersion
	Revision     int64  `json:"revision"` // grows by at least 1 with each publication, rollbacks too
	Previous     int64  `json:"previous"` // revision that it replaced; 0 for the first
	Created      int64  `json:"created_unix_nanos"`
	RefreshAfter int64  `json:"refresh_after_unix_nanos"` // a client asks again
	Expires      int64  `json:"expires_unix_nanos"`       // a client drops the prices, and after a grace the laws
	Provenance   string `json:"provenance"`               // command, version, host that made it

	Fit Window `json:"fit"`

	Prefill  []PrefillFit  `json:"prefill"`
	Transfer []TransferFit `json:"transfer"`
	Restore  []RestoreFit  `json:"restore"`
	Queue    QueueFit      `json:"queue"`
	Links    []LinkPrice   `json:"links"` // refreshed by serve between fits
}

// Window is the data that a fit saw.
type Window struct {
	FromNanos  int64 `json:"from_unix_nanos"`
	UntilNanos int64 `json:"until_unix_nanos"`
	N          int64 `json:"n"` // requests
}

// Quality is how far a term may be trusted. Covariance is row-major over the
// values in the order of their JSON names in the law; errors are relative, of
// held-out points.
type Quality struct {
	N             int64      `json:"n"`
	Form          string     `json:"form"` // which form cross-validation chose
	Covariance    []float64  `json:"covariance"`
	Error         float64    `json:"mean_relative_error"`
	Floor         float64    `json:"repeat_noise"`       // what no form could beat
	Residuals     [5]float64 `json:"residual_quantiles"` // 5, 25, 50, 75, 95 %, observed − predicted, seconds
	MaxTokens     float64    `json:"max_tokens"`         // validity box: largest context seen
	MaxBytes      float64    `json:"max_bytes"`
	MaxConcurrent float64    `json:"max_concurrent"`
}

// PrefillFit is the prefill law of one (model, GPU).
type PrefillFit struct {
	Model   string       `json:"model"`
	GPU     string       `json:"gpu"`
	Law     cost.Prefill `json:"law"`
	Quality Quality      `json:"quality"`
}

// TransferFit is the transfer law of one (tier, link).
type TransferFit struct {
	Tier    string        `json:"tier"`
	Link    string        `json:"link"`
	Law     cost.Transfer `json:"law"`
	Quality Quality       `json:"quality"`
}

// RestoreFit is the restore law of one (model, tier).
type RestoreFit struct {
	Model   string       `json:"model"`
	Tier    string       `json:"tier"`
	Law     cost.Restore `json:"law"`
	Quality Quality      `json:"quality"`
}

// QueueFit is what reported GPU queues are worth: observed wait = Bias +
// Slope·reported, and the share ω of an unheld slot.
type QueueFit struct {
	Bias    float64 `json:"bias"`  // seconds
	Slope   float64 `json:"slope"` // seconds a second
	Omega   float64 `json:"omega"` // 0 to 1
	Quality Quality `json:"quality"`
}

// LinkPrice is the price of one link, from eligible demand.
type LinkPrice struct {
	Link         string     `json:"link"`
	Price        cost.Price `json:"price"`
	Coordinators int64      `json:"coordinators"`
	AsOf         int64      `json:"as_of_unix_nanos"`
	Demand       int64      `json:"demand"` // eligible fetches that it was found from
}

// SignedDocument is a document as it travels: the exact bytes and a detached JWS
// (RFC 7515, appendix F) over them.
type SignedDocument struct {
	Payload   []byte // JSON of Document
	Signature string // header..signature
}

// AppliedStatus is what a coordinator says back of a document.
type AppliedStatus struct {
	Instance string `json:"instance"`
	Revision int64  `json:"revision"`
	Applied  bool   `json:"applied"`
	Reason   string `json:"reason"` // why not
	AtNanos  int64  `json:"at_unix_nanos"`
}

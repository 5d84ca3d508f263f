package coefficients

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kvwhatif/kvwhatif/schema"
)

// MaxBytes bounds a document, 4 MiB: some ten thousand laws.
const MaxBytes = 4 << 20

// Marshal checks d and gives its canonical JSON: fields in the order of the type,
// laws and prices sorted by key, no white space, no HTML escapes, the shortest
// float that reads back the same, lists never null. The same document gives the
// same bytes.
func Marshal(d schema.Document) ([]byte, error) {
	d = Canonical(d)
	if err := Check(&d); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(d); err != nil {
		return nil, fmt.Errorf("encode coefficient document: %w", err)
	}
	payload := bytes.TrimRight(out.Bytes(), "\n")
	if len(payload) > MaxBytes {
		return nil, fmt.Errorf("coefficient document of %d bytes is over %d: publish fewer models and links in one", len(payload), MaxBytes)
	}
	return payload, nil
}

// Canonical gives d with its lists sorted by key and none of them nil. d is not
// changed.
func Canonical(d schema.Document) schema.Document {
	d.Prefill = sorted(d.Prefill, func(f schema.PrefillFit) [2]string { return [2]string{f.Model, f.GPU} })
	d.Transfer = sorted(d.Transfer, func(f schema.TransferFit) [2]string { return [2]string{f.Tier, f.Link} })
	d.Restore = sorted(d.Restore, func(f schema.RestoreFit) [2]string { return [2]string{f.Model, f.Tier} })
	d.Links = sorted(d.Links, func(f schema.LinkPrice) [2]string { return [2]string{f.Link} })
	for i := range d.Prefill {
		fill(&d.Prefill[i].Quality)
	}
	for i := range d.Transfer {
		fill(&d.Transfer[i].Quality)
	}
	for i := range d.Restore {
		fill(&d.Restore[i].Quality)
	}
	fill(&d.Queue.Quality)
	return d
}

func sorted[T any](list []T, key func(T) [2]string) []T {
	out := append(make([]T, 0, len(list)), list...)
	slices.SortStableFunc(out, func(a, b T) int {
		ka, kb := key(a), key(b)
		return cmp.Or(cmp.Compare(ka[0], kb[0]), cmp.Compare(ka[1], kb[1]))
	})
	return out
}

func fill(q *schema.Quality) {
	if q.Covariance == nil {
		q.Covariance = []float64{}
	}
}

// Digest names payload: "sha256:" and 64 hex digits.
func Digest(payload []byte) string {
	sum := sha256.Sum256(payload)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Decode reads a document and checks it. Fields that are not known are ignored,
// so that a reader outlives an addition; a document of a higher version is
// refused. It does not verify: see Open.
func Decode(payload []byte) (schema.Document, error) {
	var d schema.Document
	if len(payload) > MaxBytes {
		return d, fmt.Errorf("coefficient document of %d bytes is over %d", len(payload), MaxBytes)
	}
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(payload, &head); err != nil {
		return d, fmt.Errorf("read coefficient document: %w", err)
	}
	if head.Version < 1 || head.Version > schema.DocumentVersion {
		return d, fmt.Errorf("coefficient document of version %d: this program reads 1 to %d, upgrade it", head.Version, schema.DocumentVersion)
	}
	if err := json.Unmarshal(payload, &d); err != nil {
		return d, fmt.Errorf("read coefficient document: %w", err)
	}
	if err := Check(&d); err != nil {
		return schema.Document{}, err
	}
	return d, nil
}

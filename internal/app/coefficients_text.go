package app

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/kvwhatif/kvwhatif/calibrate/publish"
	"github.com/kvwhatif/kvwhatif/dashboards/report"
	"github.com/kvwhatif/kvwhatif/schema"
)

// CoefficientDocument is a document as it was published.
type CoefficientDocument struct {
	Payload   []byte // exact bytes, which were signed
	Signature string // detached JWS
	Digest    string
	Verified  bool // by a key that was named
	document  schema.Document
}

// Revision is the document's.
func (c *CoefficientDocument) Revision() int64 { return c.document.Revision }

// MarshalJSON is the document with its signature.
func (c *CoefficientDocument) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Digest    string          `json:"digest"`
		Signature string          `json:"signature"`
		Verified  bool            `json:"verified"`
		Document  json.RawMessage `json:"document"`
	}{c.Digest, c.Signature, c.Verified, c.Payload})
}

// instant writes Unix nanoseconds for people.
func instant(nanos int64) string {
	if nanos == 0 {
		return "never"
	}
	return time.Unix(0, nanos).UTC().Format(time.RFC3339)
}

// Text is the document for a terminal.
func (c *CoefficientDocument) Text() string {
	d := &c.document
	var b strings.Builder
	verified := "signature not verified: give --public-key FILE"
	if c.Verified {
		verified = "signature verified"
	}
	fmt.Fprintf(&b, "Revision %d (replaced %d), %s\n%s\nmade by %s\ncreated %s, expires %s\n", d.Revision, d.Previous, verified,
		c.Digest, d.Provenance, instant(d.Created), instant(d.Expires))
	fmt.Fprintf(&b, "fitted to %d requests from %s to %s\n", d.Fit.N, instant(d.Fit.FromNanos), instant(d.Fit.UntilNanos))
	if doc := report.OfDocument(*d); len(doc.Terms) > 0 {
		b.WriteString(termTable(doc.Terms) + "\n")
	}
	if len(d.Links) > 0 {
		b.WriteString(priceTable(d.Links) + "\n")
	}
	return b.String()
}

func priceTable(links []schema.LinkPrice) string {
	t := newTable("link", "best load", "mean transfer", "coordinators", "eligible fetches", "as of")
	for i := range links {
		l := &links[i]
		t.AppendRow(table.Row{l.Link, short(l.Price.Load), size(l.Price.MeanBytes), l.Coordinators, l.Demand, instant(l.AsOf)})
	}
	return t.Render()
}

// CoefficientEntries is what was published, newest first.
type CoefficientEntries []publish.Entry

// Text is a row a publication.
func (e CoefficientEntries) Text() string {
	if len(e) == 0 {
		return "Nothing was published yet: run `kvwhatif calibrate`.\n"
	}
	t := newTable("revision", "replaced", "created", "expires", "why", "by")
	for i := range e {
		t.AppendRow(table.Row{e[i].Revision, e[i].Previous, instant(e[i].CreatedNanos), instant(e[i].ExpiresNanos), e[i].Note, e[i].Provenance})
	}
	return t.Render() + "\n"
}

// CoordinatorStatuses is the last word of each coordinator.
type CoordinatorStatuses []schema.AppliedStatus

// Text is a row a coordinator.
func (s CoordinatorStatuses) Text() string {
	if len(s) == 0 {
		return "No coordinator said anything in this time.\n"
	}
	t := newTable("coordinator", "revision", "applied", "at", "why not")
	for i := range s {
		applied := "yes"
		if !s[i].Applied {
			applied = "no"
		}
		t.AppendRow(table.Row{s[i].Instance, s[i].Revision, applied, instant(s[i].AtNanos), s[i].Reason})
	}
	return t.Render() + "\n"
}

package publish

import (
	"cmp"
	"slices"
	"time"
)

// newest sorts rows by revision, highest first, and cuts them after the limit-th
// revision that has a document.
func newest(rows []Row, limit int) []Row {
	out := slices.Clone(rows)
	slices.SortStableFunc(out, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Revision, a.Revision), cmp.Compare(a.CreatedNanos, b.CreatedNanos))
	})
	last := int64(-1)
	for i, r := range out {
		if limit <= 0 && r.Revision != last {
			return out[:i]
		}
		if r.Payload != "" && r.Revision != last {
			limit, last = limit-1, r.Revision
		}
	}
	return out
}

// latest is the document of the highest revision.
func latest(rows []Row) (Row, bool) {
	for _, r := range rows { // highest first
		if r.Payload != "" {
			return r, true
		}
	}
	return Row{}, false
}

// heldBy finds a claim that may still become a document: the revision has none, the
// claim is not void and is younger than ClaimLife.
func heldBy(rows []Row, now time.Time) (Row, bool) {
	ended := map[[2]any]bool{}
	for _, r := range rows {
		if r.Payload != "" {
			ended[[2]any{r.Revision, ""}] = true
		} else if r.Note == noteVoid {
			ended[[2]any{r.Revision, r.Signature}] = true
		}
	}
	for _, r := range rows {
		open := r.Payload == "" && r.Note == noteClaim && !ended[[2]any{r.Revision, ""}] && !ended[[2]any{r.Revision, r.Signature}]
		if open && now.UnixNano()-r.CreatedNanos < int64(ClaimLife) {
			return r, true
		}
	}
	return Row{}, false
}

// soleClaim says that claimant alone claimed the revision of rows.
func soleClaim(rows []Row, claimant string) bool {
	mine := false
	for _, r := range rows {
		if r.Payload != "" || r.Note == noteClaim && r.Signature != claimant {
			return false
		}
		mine = mine || r.Note == noteClaim && r.Signature == claimant
	}
	return mine
}

func highest(rows []Row) int64 {
	if len(rows) == 0 {
		return 0
	}
	return rows[0].Revision
}

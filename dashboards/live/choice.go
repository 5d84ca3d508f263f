package live

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/kvwhatif/kvwhatif/dashboards/report"
)

// ranges are the lengths of time that can be chosen.
var ranges = []struct {
	value, name string
	length      time.Duration
}{
	{"15m", "15 min", 15 * time.Minute}, {"1h", "1 h", time.Hour}, {"6h", "6 h", 6 * time.Hour},
	{"24h", "24 h", 24 * time.Hour}, {"7d", "7 d", 7 * 24 * time.Hour},
}

const defaultRange = "1h"

// maxName is the longest name of a link or model that is asked for, bytes.
const maxName = 512

// choice is what the address of the page says.
type choice struct{ Range, Link, Model string }

// choose reads the address. What is not known in it is an error, for a slip that
// is passed over shows other numbers than were asked for.
func choose(q url.Values) (choice, error) {
	c := choice{Range: q.Get("range"), Link: q.Get("link"), Model: q.Get("model")}
	if c.Range == "" {
		c.Range = defaultRange
	}
	for name := range q {
		if !slices.Contains([]string{"range", "link", "model"}, name) {
			return c, wrong("%q is nothing that can be chosen: give range, link or model", name)
		}
	}
	switch {
	case c.length() == 0:
		return c, wrong("the range %q is not known: give 15m, 1h, 6h, 24h or 7d", c.Range)
	case len(c.Link) > maxName || len(c.Model) > maxName:
		return c, wrong("a name is longer than %d bytes: no link and no model has it", maxName)
	}
	return c, nil
}

func wrong(format string, args ...any) error {
	return errors.Join(errWrong, fmt.Errorf(format, args...))
}

// length is that of the range; 0 where it is not known.
func (c choice) length() time.Duration {
	for _, r := range ranges {
		if r.value == c.Range {
			return r.length
		}
	}
	return 0
}

// name is the range for people.
func (c choice) name() string {
	for _, r := range ranges {
		if r.value == c.Range {
			return "last " + r.name
		}
	}
	return c.Range
}

// href is the address of the page with this choice.
func (c choice) href() string {
	q := url.Values{"range": {c.Range}}
	if c.Link != "" {
		q.Set("link", c.Link)
	}
	if c.Model != "" {
		q.Set("model", c.Model)
	}
	return "/?" + q.Encode()
}

// ranges are links to the other ranges, with the filters kept.
func (c choice) ranges() (out []report.Choice) {
	for _, r := range ranges {
		other := c
		other.Range = r.value
		out = append(out, report.Choice{Value: r.value, Name: r.name, Href: other.href(), Chosen: r.value == c.Range})
	}
	return out
}

// scope is what the filters leave, for people.
func (c choice) scope() (s string) {
	if c.Link != "" {
		s = "On link " + c.Link
	}
	if c.Model != "" {
		if s != "" {
			s += ", "
		}
		s += "model " + c.Model
	}
	return s
}

// options are the values of a filter. One that was chosen and has no requests now
// stays among them.
func options(all, chosen string, values []string) []report.Choice {
	if chosen != "" && !slices.Contains(values, chosen) {
		values = append([]string{chosen}, values...)
	}
	out := []report.Choice{{Name: all, Chosen: chosen == ""}}
	for _, v := range values {
		out = append(out, report.Choice{Value: v, Name: v, Chosen: v == chosen})
	}
	return out
}

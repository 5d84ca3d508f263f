package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"time"
)

// Live is what a page that a server gives has beside the data: what can be
// chosen, and what to do where something is missing. The page is then drawn by
// the same templates, with its style and its one script at addresses of that
// server instead of inside it.
type Live struct {
	Style, Script string   // addresses of both
	Home          string   // address of the page with what is chosen now
	Ranges        []Choice // of time, each a link
	Links, Models []Choice // of the filters, the first for all
	Range         string   // that is chosen
	Every         int      // seconds after which the page is asked for again
	Steps         []Step   // what is missing, and what to do about it
	Scope         string   // what the filters leave, for people; "" where they leave all
}

// Choice is one of several values of a filter.
type Choice struct {
	Value, Name, Href string
	Chosen            bool
}

// Step is something that is missing, and what to do next.
type Step struct {
	Missing, Do, Command string
}

// Style is the style sheet of every page.
//
//go:embed templates/style.css
var Style []byte

// Script keeps a live page up to date. Without it the page is whole, and old.
//
//go:embed templates/live.js
var Script []byte

// RenderLive writes d as a page of a server.
func RenderLive(w io.Writer, d Data, l Live) error {
	p := newPage(d)
	p.Live, p.Kind = &l, "report"
	if d.Title == "" && l.Scope != "" {
		p.Heading += " " + l.Scope
	}
	p.link()
	return draw(w, "page.html.tmpl", p)
}

// RenderRequests writes the requests that one id names, each with every path that
// it could have taken. None is a page that says so.
func RenderRequests(w io.Writer, id string, all []Request, l Live) error {
	p := page{Heading: "Request " + id, Live: &l, Kind: "request"}
	for i := range all {
		p.Requests = append(p.Requests, newRequest(&all[i]))
	}
	return draw(w, "request.html.tmpl", p)
}

// RenderProblem writes a page that says why there is none, and what to do.
func RenderProblem(w io.Writer, heading, why string, l Live) error {
	return draw(w, "problem.html.tmpl", page{Heading: heading, Window: why, Live: &l, Kind: "problem"})
}

func draw(w io.Writer, name string, p page) error {
	var b bytes.Buffer
	if err := tmpl.ExecuteTemplate(&b, name, p); err != nil {
		return fmt.Errorf("report: draw the page: %w", err)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("report: write the page: %w", err)
	}
	return nil
}

// link gives every decision the address of its own page.
func (p *page) link() {
	for _, rows := range [][]worstRow{p.Worst.Rows, p.Worst.More} {
		for i := range rows {
			if id := rows[i].ID; id != "" {
				rows[i].Href = "/request/" + id
			}
		}
	}
}

// States is the verdict of every headline in one line, so that a script can tell
// whether it changed: "link busy hurting, link calm helping".
func (p page) States() (s string) {
	for i := range p.Verdicts {
		if v := &p.Verdicts[i]; v.headline() {
			s = listed(s, v.where()+" "+string(v.Shown()))
		}
	}
	if s == "" {
		return "no verdict"
	}
	return s
}

// AsOf is when the page was made, and Stamp the same for a script.
func (p page) AsOf() string { return moment(p.Measured.Generated) }

// Stamp is when the page was made, RFC 3339.
func (p page) Stamp() string { return p.Measured.Generated.UTC().Format(time.RFC3339) }

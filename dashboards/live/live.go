package live

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/kvwhatif/kvwhatif/dashboards/query"
	"github.com/kvwhatif/kvwhatif/dashboards/report"
)

// Source is where the page has its numbers from.
type Source interface {
	// Data is everything of a window.
	Data(ctx context.Context, w query.Window) (report.Data, error)
	// Held is what can be chosen, and what is missing.
	Held(ctx context.Context, w query.Window) (query.Holdings, error)
	// Requests are those that an id names.
	Requests(ctx context.Context, id string) ([]report.Request, error)
}

// Config is what a page needs.
type Config struct {
	Source  Source
	Hosts   []string         // names and addresses by which it may be asked for, beside those of the loopback
	Version string           // of kvwhatif
	OTLP    string           // where spans are sent to, for people; "" where this process takes none
	Now     func() time.Time // nil: the clock
	Log     *slog.Logger     // nil: silence
}

// Times of the page.
const (
	every   = 15 * time.Second // after which a browser asks again, and how long an answer is kept
	timeout = 30 * time.Second // of all questions of one page
)

// maxID is the longest request id that is looked for, bytes.
const maxID = 256

// page is the handler behind New.
type page struct {
	Config
	answers answers
	style   asset
	script  asset
}

// asset is a file of the page, under an address that changes with it.
type asset struct {
	path, kind string
	body       []byte
}

func newAsset(name, kind string, body []byte) asset {
	sum := sha256.Sum256(body)
	base, ending, _ := strings.Cut(name, ".")
	return asset{"/assets/" + base + "-" + hex.EncodeToString(sum[:6]) + "." + ending, kind, body}
}

// New gives the handler of the page: /, /request/ID, /api/report and
// /api/request/ID.
func New(cfg Config) http.Handler {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	p := &page{Config: cfg, answers: answers{turn: make(chan struct{}, 1)}, style: newAsset("style.css", "text/css; charset=utf-8", report.Style), script: newAsset("live.js", "text/javascript; charset=utf-8", report.Script)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.report)
	mux.HandleFunc("GET /request/{id}", p.request)
	mux.HandleFunc("GET /api/report", p.reportJSON)
	mux.HandleFunc("GET /api/request/{id}", p.requestJSON)
	for _, a := range []asset{p.style, p.script} {
		mux.HandleFunc("GET "+a.path, a.serve)
	}
	return p.guard(mux)
}

func (a asset) serve(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(a.body)
}

// answer reads everything of what was chosen, or gives what it read a moment ago.
func (p *page) answer(r *http.Request) (*answer, error) {
	c, err := choose(r.URL.Query())
	if err != nil {
		return nil, err
	}
	until := p.Now().UTC().Truncate(every)
	w := query.Window{From: until.Add(-c.length()), Until: until, Link: c.Link, Model: c.Model}
	return p.answers.get(r.Context(), c, until, func(ctx context.Context) (*answer, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		began := p.Now()
		data, err := p.Source.Data(ctx, w)
		if err != nil {
			return nil, err
		}
		held, err := p.Source.Held(ctx, w)
		if err != nil {
			return nil, err
		}
		m := &data.Measured
		m.Version, m.Command, m.Generated, m.Wall = p.Version, "the page of kvwhatif, "+c.name(), p.Now().UTC(), p.Now().Sub(began).Seconds()
		return p.draw(c, data, held)
	})
}

// draw makes the page once for everybody who asks for it.
func (p *page) draw(c choice, data report.Data, held query.Holdings) (*answer, error) {
	l := p.live(c)
	l.Links, l.Models = options("all links", c.Link, held.Links), options("all models", c.Model, held.Models)
	l.Steps = steps(data, held, c, p.OTLP)
	var b bytes.Buffer
	if err := report.RenderLive(&b, data, l); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b.Bytes())
	return &answer{data: data, page: b.Bytes(), etag: `"` + hex.EncodeToString(sum[:12]) + `"`}, nil
}

func (p *page) live(c choice) report.Live {
	return report.Live{Style: p.style.path, Script: p.script.path, Home: c.href(), Ranges: c.ranges(), Range: c.Range, Every: int(every / time.Second), Scope: c.scope()}
}

func (p *page) report(w http.ResponseWriter, r *http.Request) {
	a, err := p.answer(r)
	if err != nil {
		p.problem(w, r, err)
		return
	}
	w.Header().Set("ETag", a.etag)
	if r.Header.Get("If-None-Match") == a.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	writePage(w, http.StatusOK, a.page)
}

func (p *page) reportJSON(w http.ResponseWriter, r *http.Request) {
	a, err := p.answer(r)
	if err != nil {
		p.refuse(w, err)
		return
	}
	writeJSON(w, http.StatusOK, a.data)
}

// requests reads those that the address names.
func (p *page) requests(r *http.Request) (id string, all []report.Request, err error) {
	id = r.PathValue("id")
	if len(id) > maxID {
		return id[:32] + "…", nil, errors.Join(errWrong, errors.New("the id is longer than any: give the 32 hex digits of a row or a trace, or a request id"))
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	all, err = p.Source.Requests(ctx, id)
	return id, all, err
}

func (p *page) request(w http.ResponseWriter, r *http.Request) {
	id, all, err := p.requests(r)
	if err != nil {
		p.problem(w, r, err)
		return
	}
	status := http.StatusOK
	if len(all) == 0 {
		status = http.StatusNotFound
	}
	l := p.live(choice{Range: defaultRange})
	l.Every = 0 // one request does not change
	var b bytes.Buffer
	if err := report.RenderRequests(&b, id, all, l); err != nil {
		p.problem(w, r, err)
		return
	}
	writePage(w, status, b.Bytes())
}

func (p *page) requestJSON(w http.ResponseWriter, r *http.Request) {
	_, all, err := p.requests(r)
	switch {
	case err != nil:
		p.refuse(w, err)
	case len(all) == 0:
		writeJSON(w, http.StatusNotFound, map[string]string{"error": "no request has this row id, trace id or request id"})
	default:
		writeJSON(w, http.StatusOK, all)
	}
}

// errWrong marks what the asker can put right.
var errWrong = errors.New("the page was asked for something that is not there")

// told is the status of an error, and what people are told of it.
func (p *page) told(err error) (int, string) {
	if errors.Is(err, errWrong) {
		return http.StatusBadRequest, strings.TrimPrefix(err.Error(), errWrong.Error()+"\n")
	}
	p.Log.Warn("the page has no answer", "error", err)
	return http.StatusServiceUnavailable, "ClickHouse gave no answer: " + err.Error() + ". Look whether it runs and is not overloaded."
}

func (p *page) problem(w http.ResponseWriter, r *http.Request, err error) {
	status, why := p.told(err)
	l := p.live(choice{Range: defaultRange})
	if status == http.StatusServiceUnavailable {
		l.Home = r.URL.RequestURI()
	} else {
		l.Every = 0
	}
	var b bytes.Buffer
	if err := report.RenderProblem(&b, "No answer now", why, l); err != nil {
		http.Error(w, why, status)
		return
	}
	writePage(w, status, b.Bytes())
}

func (p *page) refuse(w http.ResponseWriter, err error) {
	status, why := p.told(err)
	writeJSON(w, status, map[string]string{"error": why})
}

func writePage(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "the answer cannot be written: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}

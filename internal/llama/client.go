package llama

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	maxAnswer = 8 << 20 // bytes of an answer
	maxEvent  = 1 << 20 // bytes of one event of a stream
)

// ErrUnavailable says that the server could not be reached, is loading, is busy,
// or went away: the same call may succeed later.
var ErrUnavailable = errors.New("the llama.cpp server is not available")

// ErrRefused says that the server will not do what it was asked, such as run a
// prompt that is longer than its slot.
var ErrRefused = errors.New("the llama.cpp server refused")

// ErrAnswer says that the server answered what makes no sense.
var ErrAnswer = errors.New("the llama.cpp server's answer can not be read")

// Client speaks to one llama-server. It is safe for concurrent use.
type Client struct {
	base string
	http *http.Client
}

// NewClient makes a client of the server at base, such as http://127.0.0.1:8080.
func NewClient(base string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("llama.cpp server: %q is no address, give one such as http://127.0.0.1:8080", base)
	}
	// The server closes a connection after 100 requests or 5 s, and a POST that
	// meets that is lost: each request has a connection of its own.
	return &Client{base: strings.TrimRight(base, "/"), http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}, nil
}

// Slot is what GET /slots says of one. CachedTokens are those that its cache
// holds; the server says so only of a slot that has had a task.
type Slot struct {
	ID           int  `json:"id"`
	Context      int  `json:"n_ctx"`
	Processing   bool `json:"is_processing"`
	CachedTokens int  `json:"n_prompt_tokens"`
}

// Slots lists the server's slots.
func (c *Client) Slots(ctx context.Context) (out []Slot, err error) {
	return out, c.call(ctx, http.MethodGet, "/slots", nil, &out)
}

// Metrics are those of GET /metrics that say what the server is doing, and did
// since it started.
type Metrics struct {
	Processing float64 // requests
	Deferred   float64 // requests that wait for a slot
	Prompt     float64 // prompt tokens computed, in all
	Generated  float64 // tokens generated, in all
}

// Metrics reads the server's metrics.
func (c *Client) Metrics(ctx context.Context) (m Metrics, err error) {
	body, err := c.send(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return m, err
	}
	into := map[string]*float64{
		"llamacpp:requests_processing": &m.Processing, "llamacpp:requests_deferred": &m.Deferred,
		"llamacpp:prompt_tokens_total": &m.Prompt, "llamacpp:tokens_predicted_total": &m.Generated,
	}
	found := 0
	for line := range strings.Lines(string(body)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if at := into[name]; at != nil {
			if *at, err = strconv.ParseFloat(value, 64); err != nil {
				return m, fmt.Errorf("llama.cpp metrics: %w: %s %q", ErrAnswer, name, value)
			}
			found++
		}
	}
	if found != len(into) {
		return m, fmt.Errorf("llama.cpp metrics: %w: %d of %d are there; start the server with --metrics", ErrAnswer, found, len(into))
	}
	return m, nil
}

// Health is nil once the model is loaded.
func (c *Client) Health(ctx context.Context) error {
	_, err := c.send(ctx, http.MethodGet, "/health", nil)
	return err
}

// Saved is what saving or restoring a slot came to.
type Saved struct {
	Tokens int64
	Bytes  int64
}

// Save writes the cache of a slot to a file of the server's --slot-save-path.
func (c *Client) Save(ctx context.Context, slot int, file string) (Saved, error) {
	var out struct {
		Tokens int64 `json:"n_saved"`
		Bytes  int64 `json:"n_written"`
	}
	err := c.slot(ctx, slot, "save", file, &out)
	return Saved(out), err
}

// Restore reads such a file back into a slot, in place of what it held.
func (c *Client) Restore(ctx context.Context, slot int, file string) (Saved, error) {
	var out struct {
		Tokens int64 `json:"n_restored"`
		Bytes  int64 `json:"n_read"`
	}
	err := c.slot(ctx, slot, "restore", file, &out)
	return Saved(out), err
}

// Erase empties the cache of a slot. It waits while the slot is busy.
func (c *Client) Erase(ctx context.Context, slot int) error {
	return c.slot(ctx, slot, "erase", "", new(struct{}))
}

func (c *Client) slot(ctx context.Context, slot int, action, file string, into any) error {
	return c.call(ctx, http.MethodPost, fmt.Sprintf("/slots/%d?action=%s", slot, action), map[string]string{"filename": file}, into)
}

func (c *Client) call(ctx context.Context, method, path string, body, into any) error {
	answer, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("llama.cpp %s %s: %w: %w", method, path, ErrAnswer, err)
	}
	return nil
}

func (c *Client) send(ctx context.Context, method, path string, body any) ([]byte, error) {
	resp, err := c.open(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, gone(ctx, method, path, err)
	}
	return answer, nil
}

// open sends a request and gives its answer if that is 200.
func (c *Client) open(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("llama.cpp %s %s: %w", method, path, err)
		}
		reader = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, reader)
	if err != nil {
		return nil, fmt.Errorf("llama.cpp %s %s: %w", method, path, err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, gone(ctx, method, path, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	return nil, fmt.Errorf("llama.cpp %s %s: %w: %s: %s", method, path, classOf(resp.StatusCode), resp.Status, strings.TrimSpace(string(said)))
}

var errFailed = errors.New("the llama.cpp server failed")

func classOf(status int) error {
	switch {
	case status == http.StatusServiceUnavailable, status == http.StatusTooManyRequests:
		return ErrUnavailable
	case status >= 400 && status < 500:
		return ErrRefused
	}
	return errFailed
}

// gone is the error of a connection: the context's, where that has ended.
func gone(ctx context.Context, method, path string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("llama.cpp %s %s: %w", method, path, ctx.Err())
	}
	return fmt.Errorf("llama.cpp %s %s: %w: %w", method, path, ErrUnavailable, err)
}

// Completion is one request.
type Completion struct {
	Prompt   []int32 // token ids
	Slot     int     // that it must run in
	Generate int     // tokens; 0 only fills the slot's cache
}

// Completed is what a request came to, by the client's clock.
type Completed struct {
	Sent     time.Time
	Begun    time.Time // the server began to work on the prompt
	First    time.Time // first token; the end where none was asked for
	Computed int64     // prompt tokens that were computed
	Cached   int64     // prompt tokens that the slot held
	Text     string
}

// event is one line of a stream. Events with Progress come before any token.
type event struct {
	Content  string           `json:"content"`
	Progress *json.RawMessage `json:"prompt_progress"`
	Stop     bool             `json:"stop"`
	Timings  struct {
		Cached   *int64 `json:"cache_n"`
		Computed *int64 `json:"prompt_n"`
	} `json:"timings"`
	Error *struct {
		Message string `json:"message"`
		Code    int    `json:"code"`
	} `json:"error"`
}

// Complete runs a request to its end. The server answers only once it begins, so
// the wait for its slot and for the batch under way is Begun − Sent.
func (c *Client) Complete(ctx context.Context, q Completion) (out Completed, err error) {
	body := map[string]any{
		"prompt": q.Prompt, "id_slot": q.Slot, "n_predict": q.Generate, "cache_prompt": true,
		"stream": true, "return_progress": true, "temperature": 0, "ignore_eos": true,
	}
	out.Sent = time.Now()
	resp, err := c.open(ctx, http.MethodPost, "/completion", body)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 64<<10), maxEvent)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		done, err := out.take(data, time.Now())
		if done || err != nil {
			return out, err
		}
	}
	if err = lines.Err(); err == nil {
		err = io.ErrUnexpectedEOF
	}
	return out, gone(ctx, http.MethodPost, "/completion: the stream broke off", err)
}

// take reads an event that came at now.
func (o *Completed) take(data []byte, now time.Time) (done bool, err error) {
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return false, fmt.Errorf("llama.cpp completion: %w: %w", ErrAnswer, err)
	}
	if e.Error != nil {
		return false, fmt.Errorf("llama.cpp completion: %w: %s", classOf(e.Error.Code), e.Error.Message)
	}
	if o.Begun.IsZero() {
		o.Begun = now
	}
	o.Text += e.Content
	if o.First.IsZero() && (e.Stop || (e.Progress == nil && e.Content != "")) {
		o.First = now
	}
	if !e.Stop {
		return false, nil
	}
	if e.Timings.Cached == nil || e.Timings.Computed == nil || *e.Timings.Cached < 0 || *e.Timings.Computed < 0 {
		return false, fmt.Errorf("llama.cpp completion: %w: the last event has no timings: %.200q", ErrAnswer, data)
	}
	o.Cached, o.Computed = *e.Timings.Cached, *e.Timings.Computed
	return true, nil
}

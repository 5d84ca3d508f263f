package execute

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
	"strings"
	"time"
)

const (
	maxServed = 16 << 20 // bytes of an answer
	maxEvent  = 1 << 20  // bytes of one event of a stream
)

var errAnswer = errors.New("the server's answer can not be read")

// statusError is an answer that is not 200.
type statusError struct {
	status int
	said   string
}

func (e *statusError) Error() string { return fmt.Sprintf("%d: %s", e.status, e.said) }

// Unwrap makes it ErrUnavailable or ErrRefused, as its status is.
func (e *statusError) Unwrap() error {
	switch {
	case e.status == http.StatusTooManyRequests, e.status == http.StatusServiceUnavailable,
		e.status == http.StatusBadGateway, e.status == http.StatusGatewayTimeout:
		return ErrUnavailable
	case e.status >= 400 && e.status < 500:
		return ErrRefused
	}
	return errFailed
}

// statusOfError is the status that a server answered with, or 0.
func statusOfError(err error) int {
	var s *statusError
	if errors.As(err, &s) {
		return s.status
	}
	return 0
}

// servingClient speaks to one server.
type servingClient struct {
	base  string
	token string
	http  *http.Client
}

func newServingClient(base, token string) (*servingClient, error) {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("%q is no address, give one such as http://127.0.0.1:8000", base)
	}
	// uvicorn closes what is idle for 5 s, and a POST that meets that is lost.
	return &servingClient{
		base: strings.TrimRight(base, "/"), token: token,
		http: &http.Client{Transport: &http.Transport{IdleConnTimeout: 3 * time.Second, DisableCompression: true}},
	}, nil
}

func (c *servingClient) get(ctx context.Context, path string) ([]byte, error) {
	return c.body(ctx, http.MethodGet, path, nil, nil)
}

func (c *servingClient) getJSON(ctx context.Context, path string, into any) error {
	body, err := c.get(ctx, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("GET %s: %w: %w", path, errAnswer, err)
	}
	return nil
}

func (c *servingClient) body(ctx context.Context, method, path string, header http.Header, body any) ([]byte, error) {
	resp, err := c.open(ctx, method, path, header, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxServed))
	if err != nil {
		return nil, lost(ctx, method, path, err)
	}
	return answer, nil
}

// open sends a request and gives its answer if that is 200.
func (c *servingClient) open(ctx context.Context, method, path string, header http.Header, body any) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", method, path, err)
		}
		reader = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, reader)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, lost(ctx, method, path, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 2048))
	return nil, fmt.Errorf("%s %s: %w", method, path, &statusError{resp.StatusCode, strings.TrimSpace(string(said))})
}

// lost is the error of a connection: the context's, where that has ended.
func lost(ctx context.Context, method, path string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s %s: %w", method, path, ctx.Err())
	}
	return fmt.Errorf("%s %s: %w: %w", method, path, ErrUnavailable, err)
}

// served is what a request came to, by this process's clock.
type served struct {
	sent, first time.Time
	prompt      int64 // tokens of the prompt, as the server counts
	cached      int64 // of them, found in any cache; −1: it does not say
	local       int64 // found in the engine's own cache; −1: the answer does not say
	external    int64 // found beside it; −1 likewise
}

func newServed() served { return served{prompt: -1, cached: -1, local: -1, external: -1} }

// stream posts a request and gives each event of its answer to take, with the
// time at which it came, until [DONE]. first is when take said true first.
func (c *servingClient) stream(ctx context.Context, path string, header http.Header, body any, take func(event []byte) (token bool, err error)) (sent, first time.Time, err error) {
	sent = time.Now()
	resp, err := c.open(ctx, http.MethodPost, path, header, body)
	if err != nil {
		return sent, first, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 64<<10), maxEvent)
	for lines.Scan() {
		event, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		now := time.Now()
		if string(event) == "[DONE]" {
			for lines.Scan() { // to the end, or the connection could not be used again
			}
			if first.IsZero() {
				err = fmt.Errorf("POST %s: %w: it ended without a token", path, errAnswer)
			}
			return sent, first, err
		}
		token, err := take(event)
		if err != nil {
			return sent, first, fmt.Errorf("POST %s: %w", path, err)
		}
		if token && first.IsZero() {
			first = now
		}
	}
	if err = lines.Err(); err == nil {
		err = io.ErrUnexpectedEOF
	}
	return sent, first, lost(ctx, http.MethodPost, path+": the stream broke off", err)
}

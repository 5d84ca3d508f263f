package execute

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxBody bounds a leg or a result, bytes.
const maxBody = 16 << 20

// Simulator is an Executor that asks a running simulator over HTTP: POST
// {url}/v1/legs with the leg as JSON, answered with the result as JSON once the
// leg has had its first token. Nothing needs preparing there.
type Simulator struct {
	url    string // of legs
	state  string // of StatePath
	client *http.Client
}

// NewSimulator makes a client of the simulator at base, such as
// http://127.0.0.1:8090. A leg that has no answer within timeout counts as not
// available; 0 means no limit but the context's.
func NewSimulator(base string, timeout time.Duration) (*Simulator, error) {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("replay executor: %q is no address, give one such as http://127.0.0.1:8090", base)
	}
	base = strings.TrimRight(base, "/")
	return &Simulator{url: base + LegsPath, state: base + StatePath, client: &http.Client{Timeout: timeout}}, nil
}

// Prepare has nothing to do.
func (s *Simulator) Prepare(context.Context, Leg) (Cost, error) { return Cost{}, nil }

// Cleanup has nothing to do.
func (s *Simulator) Cleanup(context.Context, Leg) error { return nil }

// Run posts the leg and waits for its result.
func (s *Simulator) Run(ctx context.Context, leg Leg) (Result, error) {
	resp, err := s.post(ctx, s.url, &leg)
	if err != nil {
		return Result{}, fmt.Errorf("run leg %s: %w", leg.ID, err)
	}
	defer resp.Body.Close()
	return readResult(leg.ID, resp)
}

// State asks for the load that the leg would meet. It is ErrNoState where the other
// side does not serve StatePath.
func (s *Simulator) State(ctx context.Context, leg Leg) (State, error) {
	resp, err := s.post(ctx, s.state, &leg)
	if err != nil {
		return State{}, fmt.Errorf("state for leg %s: %w", leg.ID, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	switch {
	case err != nil:
		return State{}, fmt.Errorf("state for leg %s: %w: %w", leg.ID, ErrUnavailable, err)
	case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusMethodNotAllowed, resp.StatusCode == http.StatusNotImplemented:
		return State{}, ErrNoState
	case resp.StatusCode != http.StatusOK:
		return State{}, fmt.Errorf("state for leg %s: %w: %s", leg.ID, classOf(resp.StatusCode), resp.Status)
	}
	out := stateJSON{number(math.NaN()), number(math.NaN())}
	if err := json.Unmarshal(body, &out); err != nil {
		return State{}, fmt.Errorf("state for leg %s: %w", leg.ID, err)
	}
	return State{float64(out.GPUQueue), float64(out.Flows)}, nil
}

func (s *Simulator) post(ctx context.Context, url string, leg *Leg) (*http.Response, error) {
	body, err := json.Marshal(leg)
	if err != nil {
		return nil, fmt.Errorf("encode it: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	switch {
	case err == nil:
		return resp, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
}

func readResult(id string, resp *http.Response) (out Result, err error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return out, fmt.Errorf("run leg %s: read the answer: %w: %w", id, ErrUnavailable, err)
	}
	if resp.StatusCode != http.StatusOK {
		said := strings.TrimSpace(string(body[:min(len(body), 500)]))
		return out, fmt.Errorf("run leg %s: %w: %s: %s", id, classOf(resp.StatusCode), resp.Status, said)
	}
	if len(body) > maxBody {
		return out, fmt.Errorf("run leg %s: the answer is over %d bytes", id, maxBody)
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return Result{}, fmt.Errorf("run leg %s: %w", id, err)
	}
	if err := out.Check(); err != nil {
		return Result{}, fmt.Errorf("run leg %s: %w", id, err)
	}
	return out, nil
}

var errFailed = errors.New("the executor failed")

func classOf(status int) error {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return ErrUnavailable
	case http.StatusInternalServerError:
		return errFailed
	}
	return ErrRefused
}

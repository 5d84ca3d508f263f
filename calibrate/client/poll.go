package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/retry"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/coefficients"
)

const (
	minBackoff    = time.Second
	statusTimeout = 5 * time.Second
	pollSlack     = 15 * time.Second // beyond the wait that was asked for
)

// Start follows the server until ctx is done, in a goroutine; a second call does
// nothing. Without a URL there is nobody to follow.
func (c *Client) Start(ctx context.Context) {
	c.start.Do(func() {
		if c.cfg.URL == "" {
			close(c.done)
			return
		}
		go c.follow(ctx)
	})
}

// Done is closed when the goroutine of Start has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

func (c *Client) follow(ctx context.Context) {
	defer close(c.done)
	f := follower{client: c}
	backoff := minBackoff
	for ctx.Err() == nil {
		began := time.Now()
		fresh, err := f.poll(ctx)
		if ctx.Err() != nil {
			return
		}
		c.report(err)
		c.recompile() // a suspended machine's alarms are late
		f.postStatus(ctx)
		pause := c.cfg.MinPoll - time.Since(began)
		switch {
		case err != nil:
			pause, backoff = retry.Spread(backoff), min(2*backoff, c.cfg.MaxBackoff)
		case fresh:
			pause, backoff = 0, minBackoff
		default:
			backoff = minBackoff
		}
		retry.Pause(ctx, pause)
	}
}

// follower is the goroutine's own state.
type follower struct {
	client  *Client
	refused string                // ETag of a document that was refused: not to be fetched again at once
	status  *schema.AppliedStatus // yet to be told
}

// poll asks once; fresh says that a new document is in use.
func (f *follower) poll(ctx context.Context) (fresh bool, err error) {
	c := f.client
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Wait+pollSlack)
	defer cancel()
	resp, err := f.get(ctx)
	if err != nil {
		return false, fmt.Errorf("ask for coefficients: %w", err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusNotModified:
		return false, nil
	case http.StatusOK:
	default:
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
		return false, fmt.Errorf("ask for coefficients: %s: %s", resp.Status, strings.TrimSpace(string(text)))
	}
	payload, err := io.ReadAll(io.LimitReader(resp.Body, coefficients.MaxBytes+1))
	if err != nil {
		return false, fmt.Errorf("read coefficients: %w", err)
	}
	return f.take(schema.SignedDocument{Payload: payload, Signature: resp.Header.Get(coefficients.SignatureHeader)}, resp.Header.Get("ETag"))
}

func (f *follower) get(ctx context.Context) (*http.Response, error) {
	c := f.client
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(c.cfg.URL, "/")+"/v1/coefficients", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Prefer", "wait="+strconv.Itoa(int(c.cfg.Wait/time.Second)))
	tag := f.refused
	if digest := c.Snapshot().Digest; tag == "" && digest != "" {
		tag = `"` + digest + `"`
	}
	if tag != "" {
		req.Header.Set("If-None-Match", tag)
	}
	return c.cfg.HTTPClient.Do(req)
}

// take applies an answer, remembers what to tell the server of it, and keeps it
// on disk.
func (f *follower) take(s schema.SignedDocument, tag string) (fresh bool, err error) {
	c := f.client
	d, err := coefficients.Open(s, c.cfg.PublicKeys...)
	digest := coefficients.Digest(s.Payload)
	if err == nil {
		if c.Snapshot().Digest == digest {
			return false, nil
		}
		err = c.apply(&d, digest)
	}
	f.status = &schema.AppliedStatus{Instance: c.cfg.Instance, Revision: d.Revision, Applied: err == nil, AtNanos: time.Now().UnixNano()}
	if err != nil {
		f.refused, f.status.Reason = tag, err.Error()
		return false, fmt.Errorf("coefficients are refused: %w", err)
	}
	f.refused = ""
	if err := c.saveCache(s); err != nil {
		c.cfg.OnError(err)
	}
	return true, nil
}

// postStatus tells the server, best effort; what fails is told at the next poll.
func (f *follower) postStatus(ctx context.Context) {
	if f.status == nil {
		return
	}
	c := f.client
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	body, err := json.Marshal(f.status)
	if err != nil {
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(c.cfg.URL, "/")+"/v1/status", bytes.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.cfg.HTTPClient.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode < 300 {
		f.status = nil
	}
}

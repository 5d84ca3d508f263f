package app

import (
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

	"github.com/kvwhatif/kvwhatif/calibrate/publish"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/coefficients"
)

// serverDocuments are those that a coefficient server gives out.
type serverDocuments struct {
	base   string
	client http.Client
}

// askFor bounds one question to the server.
const askFor = 15 * time.Second

func newServerDocuments(base string) (*serverDocuments, error) {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("--url is %q: write it as http://HOST:9470", base)
	}
	return &serverDocuments{base: strings.TrimSuffix(base, "/"), client: http.Client{Timeout: askFor}}, nil
}

// ask gives the body and the headers of a 200, and what the server said otherwise.
func (s *serverDocuments) ask(ctx context.Context, path string) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("ask %s: %w", s.base, err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, nil, fmt.Errorf("the coefficient server does not answer (%w): name it with --url, or read the tables with --clickhouse or --dir", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, coefficients.MaxBytes+1))
	if err == nil && len(body) > coefficients.MaxBytes {
		err = fmt.Errorf("it is longer than %d bytes", coefficients.MaxBytes)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the answer of %s%s: %w", s.base, path, err)
	}
	if resp.StatusCode == http.StatusOK {
		return body, resp.Header, nil
	}
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil || said.Error == "" {
		said.Error = "no reason is given: is it a coefficient server?"
	}
	return nil, nil, fmt.Errorf("%s%s answers %s: %s", s.base, path, resp.Status, said.Error)
}

func (s *serverDocuments) get(ctx context.Context, revision int64) (schema.SignedDocument, error) {
	path := "/v1/coefficients"
	if revision > 0 {
		path += "/" + strconv.FormatInt(revision, 10)
	}
	body, header, err := s.ask(ctx, path)
	if err != nil {
		return schema.SignedDocument{}, err
	}
	signature := header.Get(coefficients.SignatureHeader)
	if signature == "" {
		return schema.SignedDocument{}, errors.New("the answer has no signature: is " + s.base + " a coefficient server?")
	}
	return schema.SignedDocument{Payload: body, Signature: signature}, nil
}

func (s *serverDocuments) history(ctx context.Context, limit int) (out []publish.Entry, err error) {
	body, _, err := s.ask(ctx, "/v1/history?limit="+strconv.Itoa(limit))
	if err == nil {
		err = json.Unmarshal(body, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return out, nil
}

// statuses are those that the server has; it keeps what was said lately.
func (s *serverDocuments) statuses(ctx context.Context, since time.Duration) ([]schema.AppliedStatus, error) {
	body, _, err := s.ask(ctx, "/v1/status")
	var all, out []schema.AppliedStatus
	if err == nil {
		err = json.Unmarshal(body, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	oldest := time.Now().Add(-since).UnixNano()
	for _, st := range all {
		if st.AtNanos >= oldest {
			out = append(out, st)
		}
	}
	return out, nil
}

func (s *serverDocuments) close() error { return nil }

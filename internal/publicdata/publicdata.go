// Package publicdata holds the public measurements that demos, tests and
// benchmarks run on, embedded in the binary: an hour of real requests and
// three published ladders. README.md beside it states source and licence of each.
//
// Every loader parses its file anew and returns an error that names the file and
// the line that could not be read.
package publicdata

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

//go:embed mooncake_conversation.jsonl.gz published_rows.csv ds4_m4_max_prefill.csv
var files embed.FS

const (
	conversationFile = "mooncake_conversation.jsonl.gz"
	publishedFile    = "published_rows.csv"
	ds4File          = "ds4_m4_max_prefill.csv"
)

// BlockTokens is the size of a prefix block in Conversation, in tokens.
const BlockTokens = 512

// Request is one request of the conversation trace. Equal Blocks are equal
// prefix blocks; the last one may be partial.
type Request struct {
	Millis       int64   `json:"timestamp"`     // after the trace's start, on a grid of 3,000
	InputTokens  int64   `json:"input_length"`  // prompt
	OutputTokens int64   `json:"output_length"` // answer
	Blocks       []int64 `json:"hash_ids"`      // one for each BlockTokens of the prompt
}

// Conversation gives the 12,031 requests of one hour of a real chat service, in
// order of arrival.
func Conversation() ([]Request, error) {
	raw, err := files.ReadFile(conversationFile)
	if err != nil {
		return nil, fmt.Errorf("read embedded %s: %w", conversationFile, err)
	}
	plain, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", conversationFile, err)
	}
	return readRequests(plain, conversationFile)
}

// readRequests decodes one JSON object a line.
func readRequests(r io.Reader, name string) ([]Request, error) {
	out := make([]Request, 0, 12_031)
	for dec := json.NewDecoder(r); ; {
		var q Request
		err := dec.Decode(&q)
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s, request %d: %w", name, len(out)+1, err)
		}
		if err := q.check(); err != nil {
			return nil, fmt.Errorf("%s, request %d: %w", name, len(out)+1, err)
		}
		out = append(out, q)
	}
}

func (q *Request) check() error {
	switch want := (q.InputTokens + BlockTokens - 1) / BlockTokens; {
	case q.Millis < 0, q.InputTokens <= 0, q.OutputTokens < 0:
		return fmt.Errorf("timestamp %d, input_length %d, output_length %d: out of range",
			q.Millis, q.InputTokens, q.OutputTokens)
	case int64(len(q.Blocks)) != want:
		return fmt.Errorf("%d hash_ids for %d tokens, want %d", len(q.Blocks), q.InputTokens, want)
	}
	return nil
}

// Row is one published measurement; 0 is a number that its source does not state.
type Row struct {
	ID              string // series and context, such as "MCv2048"
	Source          string // document and commit
	Model           string
	GPU             string
	Link            string
	Note            string
	Tokens          float64 // context, tokens; 0 where not stated
	BytesPerToken   float64 // 0 where not stated
	Concurrency     float64 // transfers at once; 0 where not stated
	FetchSeconds    float64 // 0 where not stated
	RestoreSeconds  float64 // 0 where not stated
	ComputeSeconds  float64 // prefill or recompute; 0 where not stated
	TTFTSeconds     float64 // transfer included; 0 where not stated
	FetchedBytes    float64 // BytesPerToken · Tokens, or the stated payload; 0 where there is neither
	PrefillMeasured float64 // ComputeSeconds or, without it, TTFT − fetch; 0 where neither is stated
}

var publishedColumns = []string{"id", "source", "model", "gpu", "tokens", "kv_mib", "kv_per_token_bytes", "link",
	"concurrency", "fetch_ms", "restore_ms", "prefill_or_recompute_ms", "ttft_ms", "note"}

// Published gives every row of published_rows.csv, in file order. 0 in a number
// means that the source does not state it.
func Published() ([]Row, error) {
	records, err := records(publishedFile, publishedColumns)
	if err != nil {
		return nil, err
	}
	out := make([]Row, 0, len(records))
	for i, rec := range records {
		row, err := publishedRow(rec)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", publishedFile, i+2, err)
		}
		out = append(out, row)
	}
	return out, nil
}

func publishedRow(rec []string) (Row, error) {
	r := Row{ID: rec[0], Source: rec[1], Model: rec[2], GPU: rec[3], Link: rec[7], Note: rec[13]}
	n, err := numbers(rec, 4, 6, 8, 9, 10, 11, 12)
	if err != nil {
		return r, err
	}
	r.Tokens, r.BytesPerToken, r.Concurrency = n[0], n[1], n[2]
	r.FetchSeconds, r.RestoreSeconds, r.ComputeSeconds, r.TTFTSeconds = n[3]/1e3, n[4]/1e3, n[5]/1e3, n[6]/1e3
	r.FetchedBytes = r.Tokens * r.BytesPerToken
	if rec[5] == "4 GB payload" {
		r.FetchedBytes = 4e9
	}
	switch {
	case r.ComputeSeconds > 0:
		r.PrefillMeasured = r.ComputeSeconds
	case r.TTFTSeconds > 0:
		r.PrefillMeasured = r.TTFTSeconds - r.FetchSeconds
	}
	return r, nil
}

// Series gives the rows whose ID is the prefix followed by a number of tokens:
// "MCv" (transfers and TTFT of Qwen3-8B) or "LDg" (pull against recompute of
// gpt-oss-120b), in order of context.
func Series(prefix string) ([]Row, error) {
	all, err := Published()
	if err != nil {
		return nil, err
	}
	var out []Row
	for _, r := range all {
		tokens, ok := strings.CutPrefix(r.ID, prefix)
		if _, err := strconv.Atoi(tokens); ok && err == nil {
			out = append(out, r)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no series %q: use MCv or LDg", publishedFile, prefix)
	}
	return out, nil
}

// Step is one measured chunk of the ds4 ladder: how fast the chunk that ends at
// Context was computed.
type Step struct {
	Context         float64 // tokens, this chunk included
	Tokens          float64 // of this chunk
	TokensPerSecond float64
	Bytes           float64 // KV cache at Context
}

// Seconds is the time that the chunk took.
func (s Step) Seconds() float64 { return s.Tokens / s.TokensPerSecond }

var ds4Columns = []string{"ctx_tokens", "prefill_tokens", "prefill_tps", "gen_tokens", "gen_tps", "kvcache_bytes"}

// DS4 gives the 32 chunks of 2,048 tokens of the ds4 ladder, in order of context.
func DS4() ([]Step, error) {
	records, err := records(ds4File, ds4Columns)
	if err != nil {
		return nil, err
	}
	out := make([]Step, 0, len(records))
	for i, rec := range records {
		n, err := numbers(rec, 0, 1, 2, 5)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", ds4File, i+2, err)
		}
		out = append(out, Step{Context: n[0], Tokens: n[1], TokensPerSecond: n[2], Bytes: n[3]})
	}
	return out, nil
}

// records reads an embedded CSV and checks its header.
func records(name string, columns []string) ([][]string, error) {
	raw, err := files.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read embedded %s: %w", name, err)
	}
	all, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(raw, []byte("\ufeff")))).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	if len(all) == 0 || strings.Join(all[0], ",") != strings.Join(columns, ",") {
		return nil, fmt.Errorf("%s: its header is not %v", name, columns)
	}
	return all[1:], nil
}

// numbers parses the given fields; an empty one is 0.
func numbers(rec []string, fields ...int) ([]float64, error) {
	out := make([]float64, len(fields))
	for i, f := range fields {
		if rec[f] == "" {
			continue
		}
		v, err := strconv.ParseFloat(rec[f], 64)
		if err != nil {
			return nil, fmt.Errorf("field %d: %w", f+1, err)
		}
		out[i] = v
	}
	return out, nil
}

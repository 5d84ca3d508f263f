package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
)

// captured is what a real vLLM sent, and what its clients saw.
const captured = "../collector/extract/testdata/vllm"

// TestVLLM posts spans that a real vLLM wrote to a program that hangs its rows on
// engines' spans, twice, and compares the rows with what the clients saw.
func TestVLLM(t *testing.T) {
	requireEngine(t)
	up := startUp(t, t.TempDir(), []string{"KVWHATIF_LOAD_ANCHOR=engine"})
	files, err := filepath.Glob(filepath.Join(captured, "*.pb"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	spans := 0
	for range 2 {
		spans = 0
		for _, file := range files {
			body, err := os.ReadFile(file)
			require.NoError(t, err)
			code, said := post(t, up, "application/x-protobuf", body)
			require.Equal(t, http.StatusOK, code, string(said))
			require.Empty(t, said, "spans refused")
			spans += requestSpans(t, body)
		}
	}
	d := openTables(t, up.at.ClickHouse)
	d.eventually(spans, "SELECT count() FROM requests FINAL")
	require.EqualValues(t, spans, d.number("SELECT countIf(kind = 'engine' AND engine_adapter = 'vllm' AND length(spans) = 1 AND length(contents) = 1) FROM requests FINAL"))
	require.EqualValues(t, spans, d.number("SELECT countIf(engine_ttft > 0 AND engine_ttft <= engine_e2e) FROM requests FINAL"))
	checkClients(t, d)
	d.slicesEqualARecount()
	require.EqualValues(t, spans, d.number("SELECT sum(n) FROM slices_between(from = '2000-01-01 00:00:00', until = '2100-01-01 00:00:00')"))
	require.EqualValues(t, spans, d.number("SELECT sum(unknown) FROM slices_between(from = '2000-01-01 00:00:00', until = '2100-01-01 00:00:00')"),
		"nobody decided: whether it helped is not known")
}

// requestSpans counts vLLM's spans of requests.
func requestSpans(t *testing.T, body []byte) (n int) {
	t.Helper()
	var r coltrace.ExportTraceServiceRequest
	require.NoError(t, proto.Unmarshal(body, &r))
	for _, rs := range r.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				if s.Name == "llm_request" {
					n++
				}
			}
		}
	}
	return n
}

// checkClients compares tokens with what the client of each request was told.
func checkClients(t *testing.T, d *tables) {
	t.Helper()
	f, err := os.Open(filepath.Join(captured, "truth_run1.jsonl"))
	require.NoError(t, err)
	defer f.Close()
	compared := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var seen struct {
			Case     string
			Response string  `json:"response_id"`
			Prompt   int     `json:"prompt_tokens"`
			Output   int     `json:"completion_tokens"`
			Wall     float64 `json:"client_wall"`
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &seen))
		if seen.Prompt == 0 || seen.Case == "n2" || seen.Case == "multi_prompt_batch" ||
			d.number("SELECT count() FROM requests FINAL WHERE engine_request_id = '"+seen.Response+"'") == 0 {
			continue // of several engine requests, or vLLM wrote no span: it was aborted, or its trace is not sampled
		}
		require.EqualValues(t, 1, d.number(fmt.Sprintf("SELECT countIf(engine_tokens_prompt = %d AND engine_tokens_output = %d AND engine_ttft <= %v AND engine_tokens_cached IS NULL) "+
			"FROM requests FINAL WHERE engine_request_id = '%s'", seen.Prompt, seen.Output, seen.Wall, seen.Response)), lines.Text())
		compared++
	}
	require.Greater(t, compared, 50)
}

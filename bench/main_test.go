package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/bench/peer"
	"github.com/kvwhatif/kvwhatif/bench/rig"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/internal/kafka/kafkatest"
)

func TestMain(m *testing.M) {
	clickhouse.RunIfChild()
	os.Exit(m.Run())
}

// requireParts skips on a machine that lacks an engine, and fails under CI.
func requireParts(t *testing.T) {
	t.Helper()
	clickhousetest.RequireEngine(t)
	if _, err := kafkatest.Install(t.Context()); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// The bench runs from end to end, small and without the peer, and has a figure in
// every row that needs none. It says nothing about how large they are.
func TestSmoke(t *testing.T) {
	requireParts(t)
	t.Setenv(peer.Variable, "0")
	program, err := rig.Build(t.Context(), t.TempDir(), buildFlags...)
	require.NoError(t, err)
	out := filepath.Join(t.TempDir(), "results")
	page := filepath.Join(t.TempDir(), "page.md")
	o, err := parse([]string{"--only", "P2,P3,P4,P5,G2", "--seconds", "100ms", "--rounds", "1", "--spans", "4000", "--spans-a-request", "400",
		"--senders", "2", "--program", program, "--results", out, "--write", page})
	require.NoError(t, err)
	o.shapes, o.largest = allShapes[:1], 64
	b, err := newBench(t.Context(), o)
	require.NoError(t, err)
	defer b.close()
	r, err := b.all(t.Context())
	require.NoError(t, err)
	require.NoError(t, r.give(o, &bytes.Buffer{}))

	rows := map[string]int{}
	for _, table := range r.Tables {
		rows[table.ID] = len(table.Rows)
		for _, row := range table.Rows {
			require.Len(t, row.Values, len(table.Columns), row.Name)
			require.Positive(t, float64(row.Values[0]), "%s %s", table.ID, row.Name)
		}
	}
	require.Equal(t, map[string]int{"P2": 1, "P3": 1, "P4": 3, "P5": 1, "G2": 1}, rows)
	var kept report
	body, err := os.ReadFile(filepath.Join(out, "latest.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(body, &kept))
	require.Len(t, kept.Tables, len(rows))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "## P3: ")
}

// Decoding needs no engine. Each way reads the whole request.
func TestDecodersRead(t *testing.T) {
	b := &bench{options: options{perReq: 4}}
	for _, shape := range allShapes {
		r, err := b.requests(shape.Shape, 4)
		require.NoError(t, err)
		body := r.Append(nil, 0)
		list, err := b.decoders(t.Context(), body)
		require.NoError(t, err)
		require.Len(t, list, 3)
		for _, m := range list {
			nanos, _, err := m.run(t.Context(), 20*time.Millisecond)
			require.NoError(t, err, "%s %s", shape.Name, m.name)
			require.GreaterOrEqual(t, nanos, 0.0)
		}
		require.Error(t, walkBare(body[:len(body)-1], 0))
		require.Error(t, collecting(body[:len(body)-1])())
	}
}

func TestParseBench(t *testing.T) {
	got := parseBench([]byte("goos: linux\nBenchmarkX/plain \t 100\t 12.5 ns/op\t 3 cpu-ns/part\t 7 allocs/op\nBenchmarkX/plain 90 13 ns/op\nPASS\n"))
	require.Equal(t, []float64{12.5, 13}, of(got["X/plain"], "ns/op"))
	require.Equal(t, []float64{3}, of(got["X/plain"], "cpu-ns/part"))
	require.Len(t, got, 1)
}

func TestTables(t *testing.T) {
	table := &Table{ID: "P0", Title: "a question", First: "what", Columns: []string{"ns"}, Notes: []string{"a note"}, Rows: []Row{
		{Name: "ours", Values: []Number{1234.4}, Ratio: 2.5, To: "peer"}, {Name: "theirs", Values: []Number{none}, Ratio: none},
	}}
	var text, page bytes.Buffer
	table.Text(&text)
	require.Contains(t, text.String(), "  ours    1,234  2.50× peer")
	table.Markdown(&page)
	require.Contains(t, page.String(), "| what | ns | ratio |\n|---|--:|---|\n| ours | 1,234 | 2.50× peer |\n| theirs | – | – |\n")
	for v, want := range map[Number]string{0: "0", 0.0012: "0.0012", 0.5: "0.50", 12.34: "12.3", 99_999.6: "100,000", none: "–"} {
		require.Equal(t, want, v.String())
	}
	require.Equal(t, Number(2.5), median([]float64{9, 1, 2, 3}))
	require.Equal(t, Number(2), median([]float64{9, 1, 2}))
	body, err := json.Marshal(table)
	require.NoError(t, err)
	var back Table
	require.NoError(t, json.Unmarshal(body, &back))
	require.Equal(t, "–", back.Rows[1].ratio())
}

// Tables that were not measured again stay, and keep their order.
func TestResultsAreMerged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "latest.json")
	old := &report{Tables: []*Table{{ID: "P1", Title: "old"}, {ID: "P3", Title: "old"}}}
	require.NoError(t, old.file(path, old.writeJSON))
	got, err := (&report{Date: "today", Tables: []*Table{{ID: "P2", Title: "new"}, {ID: "P1", Title: "new"}}}).over(path)
	require.NoError(t, err)
	var list []string
	for _, t := range got.Tables {
		list = append(list, t.ID+" "+t.Title)
	}
	require.Equal(t, "P1 new, P2 new, P3 old", strings.Join(list, ", "))
	require.Equal(t, "today", got.Date)
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err = got.over(path)
	require.ErrorContains(t, err, "delete it")
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{{"--only", "P99"}, {"--seconds", "0s"}, {"--rounds", "0"}, {"--spans", "1"}, {"--unknown"}} {
		_, err := parse(args)
		require.Error(t, err, "%v", args)
	}
}

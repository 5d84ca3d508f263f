package grafana

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/internal/migrate"
)

func TestMain(m *testing.M) { clickhousetest.Main(m) }

// recorded is what the tables of a demo held: see testdata/README.md.
var recorded = map[string]string{
	"requests":           "SELECT * FROM requests FINAL WHERE trace IN (SELECT trace FROM (SELECT of AS trace FROM replays ORDER BY start LIMIT 20) UNION ALL SELECT trace FROM (SELECT trace FROM worst ORDER BY shrunk LIMIT 20)) ORDER BY minute, id",
	"slices":             "SELECT * FROM slices FINAL WHERE (shard, minute, gen) IN (SELECT shard, minute, max(gen) FROM slices GROUP BY shard, minute) ORDER BY ALL",
	"worst":              "SELECT * FROM worst FINAL WHERE (shard, minute, gen) IN (SELECT shard, minute, max(gen) FROM worst GROUP BY shard, minute) ORDER BY minute, rank",
	"transfers":          "SELECT * FROM transfers FINAL WHERE trace IN (SELECT trace FROM (SELECT of AS trace FROM replays ORDER BY start LIMIT 20) UNION ALL SELECT trace FROM (SELECT trace FROM worst ORDER BY shrunk LIMIT 20)) ORDER BY start, trace, span",
	"replays":            "SELECT * FROM replays FINAL ORDER BY start, trace, span",
	"estimates":          "SELECT * FROM estimates FINAL ORDER BY ALL",
	"verdicts":           "SELECT * FROM verdicts FINAL ORDER BY ALL",
	"coefficients":       "SELECT * FROM coefficients FINAL ORDER BY revision, created",
	"coordinator_status": "SELECT * FROM coordinator_status FINAL ORDER BY at",
	"positions":          "SELECT * FROM positions FINAL ORDER BY topic, partition",
}

// server asks one database over HTTP, as a datasource does.
type server struct{ base url.URL }

func (s server) ask(t testing.TB, sql string, body io.Reader) []byte {
	t.Helper()
	raw, err := s.try(sql, body)
	require.NoError(t, err)
	return raw
}

func (s server) try(sql string, body io.Reader) ([]byte, error) {
	u := s.base
	user := u.User
	u.User = nil
	u.RawQuery = url.Values{"database": {strings.TrimPrefix(s.base.Path, "/")}, "query": {sql}}.Encode()
	u.Path = "/"
	if body == nil {
		body, u.RawQuery = strings.NewReader(sql), url.Values{"database": {strings.TrimPrefix(s.base.Path, "/")}}.Encode()
	}
	request, err := http.NewRequest(http.MethodPost, u.String(), body)
	if err != nil {
		return nil, err
	}
	password, _ := user.Password()
	request.SetBasicAuth(user.Username(), password)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s\n%s", response.Status, raw, sql)
	}
	return raw, err
}

func serverAt(t testing.TB, dsn string) server {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	return server{*u}
}

// TestRecord rewrites the recorded rows from the directory of a demo that has ended.
func TestRecord(t *testing.T) {
	dir := os.Getenv("KVWHATIF_RECORD_DEMO")
	if dir == "" {
		t.Skip("KVWHATIF_RECORD_DEMO names no directory of a demo")
	}
	engine, err := clickhouse.StartEmbedded(t.Context(), clickhouse.EmbeddedConfig{Dir: filepath.Join(dir, "clickhouse")})
	require.NoError(t, err)
	defer engine.Stop(t.Context())
	from := serverAt(t, engine.DSN())
	for table, sql := range recorded {
		var out bytes.Buffer
		z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
		require.NoError(t, err)
		_, err = z.Write(from.ask(t, sql+" FORMAT Native", nil))
		require.NoError(t, err)
		require.NoError(t, z.Close())
		require.NoError(t, os.WriteFile(filepath.Join("testdata", table+".native.gz"), out.Bytes(), 0o644))
	}
}

// empty is a database with its tables.
func empty(t testing.TB) server {
	t.Helper()
	dsn := clickhousetest.DSN(t)
	conn, err := clickhouse.Open(t.Context(), dsn)
	require.NoError(t, err)
	defer conn.Close()
	_, err = migrate.Up(t.Context(), conn)
	require.NoError(t, err)
	s := serverAt(t, dsn)
	keep(t, s, "")
	return s
}

// keep has tables hold rows for good: those of the demo are of one day, and grow old.
func keep(t testing.TB, s server, database string) {
	t.Helper()
	for _, table := range []string{"requests", "slices", "worst", "transfers", "replays", "estimates", "verdicts", "coordinator_status"} {
		s.ask(t, "ALTER TABLE "+database+table+" REMOVE TTL", nil)
	}
}

// demo is one with the recorded rows.
func demo(t testing.TB) server {
	t.Helper()
	s := empty(t)
	fill(t, s, "")
	return s
}

// fill inserts the recorded rows; database is "" or ends in a point.
func fill(t testing.TB, s server, database string) {
	t.Helper()
	for table := range recorded {
		f, err := os.Open(filepath.Join("testdata", table+".native.gz"))
		require.NoError(t, err)
		z, err := gzip.NewReader(f)
		require.NoError(t, err)
		s.ask(t, "INSERT INTO "+database+table+" FORMAT Native", z)
		require.NoError(t, f.Close())
	}
}

// expansion is what a dashboard puts into its queries: the range, and the choice.
type expansion struct {
	from, until time.Time
	step        int
	choice      map[string]string // of a variable; none: all
	request     string
}

var variable = regexp.MustCompile(`\$\{(\w+):(singlequote|sqlstring)\}`)

// expand replaces macros and variables as Grafana and its datasources do.
func (e expansion) expand(sql string) string {
	at := func(t time.Time) string { return fmt.Sprintf("toDateTime(%d)", t.Unix()) }
	return strings.NewReplacer("$__fromTime", at(e.from), "$__toTime", at(e.until), "$__interval_s", fmt.Sprint(e.step)).Replace(e.variables(sql))
}

// variables replaces variables alone.
func (e expansion) variables(sql string) string {
	return variable.ReplaceAllStringFunc(sql, func(s string) string {
		name := variable.FindStringSubmatch(s)[1]
		switch {
		case name == "request":
			return "'" + strings.ReplaceAll(e.request, "'", "''") + "'"
		case e.choice[name] != "":
			return "'" + e.choice[name] + "'"
		}
		return "'*'"
	})
}

// answer is a result in the format JSONCompact.
type answer struct {
	Meta []struct{ Name, Type string }
	Data [][]any
}

func (s server) rows(t testing.TB, sql string) answer {
	t.Helper()
	var a answer
	require.NoError(t, json.Unmarshal(s.ask(t, sql+" FORMAT JSONCompact", nil), &a), sql)
	return a
}

// whole is the range that the recorded rows lie in.
func whole(t testing.TB, s server) expansion {
	t.Helper()
	a := s.rows(t, "SELECT toUnixTimestamp(min(minute)), toUnixTimestamp(max(minute)) + 60, (SELECT lower(hex(of)) FROM replays INNER JOIN requests ON replays.of = requests.trace ORDER BY start LIMIT 1) FROM slices")
	unix := func(v any) time.Time { return time.Unix(int64(v.(float64)), 0) }
	return expansion{from: unix(a.Data[0][0]), until: unix(a.Data[0][1]), step: 60, request: a.Data[0][2].(string)}
}

var typeOf = []struct{ kind, pattern string }{
	{"time", `^DateTime`}, {"text", `^(LowCardinality\(|Nullable\()*String`}, {"number", `^(Nullable\()?(U?Int|Float)`},
}

// checkColumns compares what came with what the panel declares.
func checkColumns(t *testing.T, p Panel, a answer) {
	t.Helper()
	var got, want []string
	for _, m := range a.Meta {
		kind := m.Type
		for _, k := range typeOf {
			if regexp.MustCompile(k.pattern).MatchString(m.Type) {
				kind = k.kind
			}
		}
		got = append(got, m.Name+" "+kind)
	}
	for _, c := range p.Columns {
		want = append(want, c.Name+" "+c.Type)
	}
	require.Equal(t, want, got)
}

// Every panel, by the text that its JSON holds, answers on a demo's rows.
func TestPanelsAnswerOnDemoData(t *testing.T) {
	s := demo(t)
	e := whole(t, s)
	for _, d := range Dashboards() {
		for _, p := range d.Panels {
			if p.SQL == "" {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d %s", d.UID, p.ID, p.Title), func(t *testing.T) {
				a := s.rows(t, e.expand(macros.Replace(p.SQL)))
				checkColumns(t, p, a)
				if !p.MayBeEmpty {
					require.NotEmpty(t, a.Data)
					require.True(t, tells(a), "every number is unknown: %v", a.Data)
				}
			})
		}
	}
}

// What fills the variables and marks the series answers too.
func TestVariablesAndAnnotationsAnswer(t *testing.T) {
	s := demo(t)
	e := whole(t, s)
	for _, of := range overview().Variables {
		require.NotEmpty(t, s.rows(t, e.expand(macros.Replace(values(of)))).Data, of)
	}
	for _, each := range events {
		sql, err := each.sql()
		require.NoError(t, err)
		a := s.rows(t, e.expand(macros.Replace(sql)))
		require.Equal(t, "time", a.Meta[0].Name, each.name)
	}
}

// A choice limits what is shown, and the empty label can be chosen by its name.
func TestChoice(t *testing.T) {
	s := demo(t)
	e := whole(t, s)
	count := func(choice map[string]string) float64 {
		e.choice = choice
		return s.rows(t, e.expand(macros.Replace("SELECT toFloat64(sum(n)) FROM "+slices()))).Data[0][0].(float64)
	}
	all := count(nil)
	busy, calm, none := count(map[string]string{"link": "busy"}), count(map[string]string{"link": "calm"}), count(map[string]string{"link": None})
	require.Positive(t, busy)
	require.Positive(t, none)
	require.Equal(t, all, busy+calm+none)
	require.Zero(t, count(map[string]string{"link": "busy", "path": "recompute"}))
	for _, d := range Dashboards() {
		for _, p := range d.Panels {
			if p.SQL != "" {
				e.choice = map[string]string{"link": "busy", "path": "fetch", "model": "Qwen3-8B"}
				s.rows(t, e.expand(macros.Replace(p.SQL)))
			}
		}
	}
}

// Over two shards every query is answered, and as on one server.
func TestPanelsAnswerOverShards(t *testing.T) {
	one := demo(t)
	e := whole(t, one)
	dsn := clickhousetest.Pair(t).DSN(t)
	_, err := (migrate.Sharded{DSN: dsn, Cluster: clickhousetest.Cluster}).Up(t.Context())
	require.NoError(t, err)
	first, _, _ := strings.Cut(dsn, ",") // any shard answers for all
	two := serverAt(t, first)
	local := clickhouse.LocalDatabase(strings.TrimPrefix(two.base.Path, "/"))
	keep(t, two, local+".")
	fill(t, two, local+".")
	for _, d := range Dashboards() {
		for _, p := range d.Panels {
			if p.SQL == "" {
				continue
			}
			sql := e.expand(macros.Replace(p.SQL))
			require.Len(t, two.rows(t, sql).Data, len(one.rows(t, sql).Data), p.Title)
		}
	}
}

// A fleet without coordinators' spans sees what its engines tell, and why not more.
func TestEnginesAlone(t *testing.T) {
	s := empty(t)
	s.ask(t, "INSERT INTO slices (minute, model, gen, n, unknown, n_engine, sum_engine_ttft) VALUES ('2023-11-14 22:20:00', 'm', 1, 10, 10, 8, 4)", nil)
	e := expansion{from: time.Unix(1.7e9, 0), until: time.Unix(1.7e9+3600, 0), step: 60}
	rows := func(id uint32) [][]any {
		for _, p := range overview().Panels {
			if p.ID == id {
				return s.rows(t, e.expand(macros.Replace(p.SQL))).Data
			}
		}
		t.Fatal(id)
		return nil
	}
	require.Equal(t, [][]any{{0.}}, rows(1), "the verdict is unknown")
	require.Equal(t, [][]any{{nil, 1.}}, rows(3), "nobody is said to be unhurt")
	require.Equal(t, [][]any{{8., 0.8}}, rows(32))
	require.Equal(t, 0.5, rows(33)[0][2])
	lacking := rows(6)
	require.Equal(t, "", lacking[0][2])
	require.Contains(t, lacking[1][2], "no coordinator writes kvreuse.request")
}

// tells is whether something in an answer is known.
func tells(a answer) bool {
	for _, row := range a.Data {
		for _, v := range row {
			if v != nil {
				return true
			}
		}
	}
	return false
}

// Empty tables are answered too: never by an error, and a verdict by UNKNOWN.
func TestPanelsAnswerOnEmptyTables(t *testing.T) {
	s := empty(t)
	e := expansion{from: time.Unix(1.7e9, 0), until: time.Unix(1.7e9+3600, 0), step: 60, request: "nobody's", choice: map[string]string{"link": "it"}}
	for _, d := range Dashboards() {
		for _, p := range d.Panels {
			if p.SQL == "" {
				continue
			}
			a := s.rows(t, e.expand(macros.Replace(p.SQL)))
			for i, c := range p.Columns {
				if c.State && len(a.Data) > 0 {
					require.EqualValues(t, 0, a.Data[0][i], p.Title)
				}
			}
		}
	}
}

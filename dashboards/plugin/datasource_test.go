package plugin

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"flag"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/dashboards/query"
	"github.com/kvwhatif/kvwhatif/dashboards/query/querytest"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/internal/migrate"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var from, until = querytest.Start, querytest.Start.Add(10 * time.Minute)

// tablesAt are filled tables at a DSN.
func tablesAt(t *testing.T, dsn string) {
	t.Helper()
	conn, err := clickhouse.Open(t.Context(), dsn)
	require.NoError(t, err)
	defer conn.Close()
	_, err = migrate.Up(t.Context(), conn)
	require.NoError(t, err)
	querytest.Fill(t, conn)
}

// goldens are questions whose frames are in testdata.
var goldens = map[string]string{
	"verdict":           `{"queryType":"verdict"}`,
	"benefit":           `{"queryType":"benefit","by":"link"}`,
	"benefit-series":    `{"queryType":"benefit","view":"series","by":"path"}`,
	"benefit-measured":  `{"queryType":"benefit","view":"series","source":"measured"}`,
	"stages":            `{"queryType":"stages","by":"path"}`,
	"links":             `{"queryType":"links"}`,
	"coverage":          `{"queryType":"coverage"}`,
	"coverage-legs":     `{"queryType":"coverage","view":"legs"}`,
	"calibration-terms": `{"queryType":"calibration","view":"terms"}`,
	"decisions":         `{"queryType":"decisions"}`,
	"request":           `{"queryType":"request","request":"000102030405060708090a0b0c0d0e0f"}`,
	"sql":               `{"queryType":"sql","sql":"SELECT minute AS time, toString(path) AS path, sum(n) AS n, 'a\\'b' AS c, [1, 2] AS list, CAST(1.5 AS Decimal(9,2)) AS d, true AS ok, nan AS x, NULL AS nothing FROM slices FINAL WHERE $__timeFilter(minute) GROUP BY time, path ORDER BY time, path"}`,
	"sql-series":        `{"queryType":"sql","view":"series","sql":"SELECT toStartOfInterval(minute, INTERVAL $__interval) AS time, link, sum(sum_ttft) AS ttft FROM slices FINAL WHERE $__timeFilter(minute) GROUP BY time, link ORDER BY time, link;"}`,
	"variable":          `{"queryType":"variable","of":"link"}`,
	"annotation":        `{"queryType":"annotation","view":"drift"}`,
}

// TestGoldenFrames asks the built program, over gRPC, about a real database.
func TestGoldenFrames(t *testing.T) {
	server := clickhousetest.Server(t) // the reader sees its own database only
	tablesAt(t, server.DSN())
	p := started(t)
	s := settingsOf(t, server.ReaderDSN(), nil)
	ok, text := p.health(t, s)
	require.True(t, ok, text)
	require.Contains(t, text, "The newest minute is 2026-12-01 09:02 UTC.")
	for name, q := range goldens {
		t.Run(name, func(t *testing.T) {
			r := p.query(t, s, from, until, q)["0"]
			require.NoError(t, r.Error)
			require.NotEmpty(t, r.Frames)
			for _, f := range r.Frames {
				checkContract(t, f)
				require.NotEmpty(t, f.Meta.ExecutedQueryString)
				f.Meta.ExecutedQueryString = ""
				still(f)
			}
			got, err := json.MarshalIndent(r.Frames, "", " ")
			require.NoError(t, err)
			golden(t, name+".json", got)
		})
	}
}

// still takes away what differs from run to run.
func still(f *data.Frame) {
	for _, field := range f.Fields {
		if field.Name == "age" {
			for i := range field.Len() {
				field.Set(i, new(0.0))
			}
		}
	}
}

// checkContract holds that a frame is what its type says.
func checkContract(t *testing.T, f *data.Frame) {
	t.Helper()
	require.Equal(t, contract, f.Meta.TypeVersion)
	times, texts, numbers := 0, 0, 0
	for _, field := range f.Fields {
		switch {
		case field.Type().Time():
			times++
		case field.Type().Numeric():
			numbers++
		default:
			texts++
		}
	}
	switch f.Meta.Type {
	case data.FrameTypeNumericLong:
		require.Zero(t, times)
		require.NotZero(t, numbers)
	case data.FrameTypeTimeSeriesMulti:
		if len(f.Fields) > 0 {
			require.Equal(t, [3]int{1, 0, 1}, [3]int{times, texts, numbers})
		}
	default:
		require.Equal(t, data.FrameTypeTable, f.Meta.Type)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	got = append(bytes.TrimSpace(got), '\n')
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "make it by go test ./dashboards/plugin -update")
	require.Equal(t, string(want), string(got))
}

// Over the native protocol the answers are the same.
func TestNativeProtocol(t *testing.T) {
	dsn := clickhousetest.Native(t)
	tablesAt(t, dsn)
	p := started(t)
	s := settingsOf(t, dsn, nil)
	ok, text := p.health(t, s)
	require.True(t, ok, text)
	require.Contains(t, text, "The user may write")
	for name, q := range goldens {
		r := p.query(t, s, from, until, q)["0"]
		require.NoError(t, r.Error, name)
		for _, f := range r.Frames {
			f.Meta.ExecutedQueryString = ""
			still(f)
		}
		got, err := json.MarshalIndent(r.Frames, "", " ")
		require.NoError(t, err)
		golden(t, name+".json", got)
	}
	refused := p.query(t, s, from, until, `{"queryType":"sql","sql":"SELECT 1 SETTINGS readonly = 0"}`)["0"]
	require.Error(t, refused.Error, "a user who may write is held to reading")
}

func TestEmptyAnswersSayWhy(t *testing.T) {
	dsn := clickhousetest.DSN(t)
	conn, err := clickhouse.Open(t.Context(), dsn)
	require.NoError(t, err)
	defer conn.Close()
	_, err = migrate.Up(t.Context(), conn)
	require.NoError(t, err)
	p, s := started(t), settingsOf(t, dsn, nil)
	why := func(q string, after time.Duration) string {
		r := p.query(t, s, from.Add(after), until.Add(after), q)["0"]
		require.NoError(t, r.Error, q)
		require.Len(t, r.Frames, 1, q)
		require.Zero(t, r.Frames[0].Rows(), q)
		require.Len(t, r.Frames[0].Meta.Notices, 1, q)
		return r.Frames[0].Meta.Notices[0].Text
	}
	for q, text := range map[string]string{
		`{"queryType":"verdict"}`:                    "no verdict was ever given",
		`{"queryType":"benefit","view":"series"}`:    "no request was ever loaded",
		`{"queryType":"coverage"}`:                   "no request was ever loaded",
		`{"queryType":"links"}`:                      "no transfer was ever seen",
		`{"queryType":"calibration"}`:                "no document was ever published",
		`{"queryType":"request","request":"nobody"}`: "no request has this id",
	} {
		require.Contains(t, why(q, 0), "no data: "+text)
	}
	querytest.Fill(t, conn)
	require.Contains(t, why(`{"queryType":"benefit"}`, time.Hour), "no request is in this range: the last came at 2026-12-01 09:02:00 UTC")
	require.Contains(t, why(`{"queryType":"stages","filter":{"link":["nowhere"]}}`, 0), "none that the filter lets through")
	require.Contains(t, why(`{"queryType":"verdict"}`, 100*time.Hour), "no verdict covers this range: the last is of 2026-12-01 09:06:00.000 UTC")
}

// What a panel may not do, and what is cut.
func TestLimitsOfSQL(t *testing.T) {
	dsn := clickhousetest.DSN(t)
	tablesAt(t, dsn)
	p := started(t)
	s := settingsOf(t, dsn, func(o map[string]any) { o["rowLimit"], o["timeout"] = 10, 2 })
	ask := func(sql string) backend.DataResponse {
		raw, err := json.Marshal(map[string]string{"queryType": "sql", "sql": sql})
		require.NoError(t, err)
		return p.query(t, s, from, until, string(raw))["0"]
	}
	for _, sql := range []string{"SELECT number FROM numbers(11)", "SELECT number FROM system.numbers SETTINGS max_result_rows = 0, max_execution_time = 0"} {
		r := ask(sql)
		require.NoError(t, r.Error, sql)
		require.Equal(t, 10, r.Frames[0].Rows(), sql)
		require.Contains(t, r.Frames[0].Meta.Notices[0].Text, "only the first 10 rows are shown")
	}
	require.Empty(t, ask("SELECT number FROM numbers(10)").Frames[0].Meta.Notices)
	r := ask("SELECT count() FROM system.numbers SETTINGS max_execution_time = 0")
	require.ErrorContains(t, r.Error, "raise the timeout")
	for sql, text := range map[string]string{
		"INSERT INTO slices (minute) VALUES (0)":                       "begin with SELECT",
		"DROP TABLE slices":                                            "begin with SELECT",
		"SELECT 1; DROP TABLE slices":                                  "only one statement",
		"SELECT * FROM url('http://127.0.0.1/', 'CSV', 'a String')":    "not in this database",
		"SELECT * FROM `remote`('127.0.0.1', system.one)":              "not in this database",
		"SELECT * FROM/**/file/**/('/etc/passwd', 'LineAsString')":     "not in this database",
		"SELECT 1 SETTINGS readonly = 0":                               "only reading is allowed",
		"WITH 1 AS x INSERT INTO slices (minute) SELECT toDateTime(0)": "",
		"SELECT nothing FROM slices":                                   "",
		"SELECT $__nothing":                                            "macro $__nothing is not known",
		"SELECT 1 WHERE $__timeFilter":                                 "needs a column",
	} {
		r := ask(sql)
		require.Error(t, r.Error, sql)
		require.Contains(t, r.Error.Error(), text, sql)
	}
	require.EqualValues(t, 5, *ask("SELECT count() AS n FROM slices").Frames[0].Fields[0].At(0).(*uint64)+2, "nothing was written")
}

// One query that fails leaves the others.
func TestQueriesAreForThemselves(t *testing.T) {
	dsn := clickhousetest.DSN(t)
	tablesAt(t, dsn)
	r := started(t).query(t, settingsOf(t, dsn, nil), from, until, `{"queryType":"verdict"}`, `{"queryType":"magic"}`, `{"queryType":"benefit"}`, `{`, `{"queryType":"stages"}`, `{"queryType":"links"}`)
	require.NoError(t, r["0"].Error)
	require.ErrorContains(t, r["1"].Error, "choose one of verdict")
	require.NoError(t, r["2"].Error)
	require.ErrorContains(t, r["3"].Error, "cannot be read")
	require.NoError(t, r["5"].Error)
}

func TestHealthSaysWhatIsWrong(t *testing.T) {
	dsn := clickhousetest.DSN(t)
	p := started(t)
	conn, err := clickhouse.Open(t.Context(), dsn)
	require.NoError(t, err)
	defer conn.Close()
	good := settingsOf(t, dsn, nil)
	ok, text := p.health(t, good)
	require.False(t, ok)
	require.Contains(t, text, "has no tables of kvwhatif", "before migrate")
	_, err = migrate.Up(t.Context(), conn)
	require.NoError(t, err)
	require.NoError(t, conn.Exec(t.Context(), "ALTER TABLE schema_migrations DELETE WHERE version > 11 SETTINGS mutations_sync = 1"))
	ok, text = p.health(t, good)
	require.False(t, ok)
	require.Contains(t, text, "too old for this data source")
	_, err = migrate.Up(t.Context(), conn)
	require.NoError(t, err)
	ok, text = p.health(t, good)
	require.True(t, ok, text)
	require.Contains(t, text, "No request was loaded yet")
	require.NoError(t, conn.Exec(t.Context(), "DROP TABLE worst"))
	ok, text = p.health(t, good)
	require.False(t, ok)
	require.Contains(t, text, "lacks the tables worst")

	change := func(f func(map[string]any)) backend.DataSourceInstanceSettings { return settingsOf(t, dsn, f) }
	for want, s := range map[string]backend.DataSourceInstanceSettings{
		"is not running at 127.0.0.1:1":   change(func(o map[string]any) { o["port"] = 1 }),
		"there is no address of the host": change(func(o map[string]any) { o["host"] = "nowhere.invalid" }),
		"user or the password":            change(func(o map[string]any) { o["username"] = "nobody" }),
		"no host is named":                change(func(o map[string]any) { o["host"] = "" }),
		"leave out the protocol":          change(func(o map[string]any) { o["host"] = "http://ch" }),
		`protocol "gopher" is not known`:  change(func(o map[string]any) { o["protocol"] = "gopher" }),
		"move it to secureJsonData":       change(func(o map[string]any) { o["password"] = "x" }),
		"the database does not exist":     change(func(o map[string]any) { o["database"] = "nowhere" }),
		"row limit -1 is out of range":    change(func(o map[string]any) { o["rowLimit"] = -1 }),
		"does not speak this protocol":    change(func(o map[string]any) { o["protocol"] = "native" }),
	} {
		ok, text := p.health(t, s)
		require.False(t, ok, want)
		require.Contains(t, text, want)
		require.NotContains(t, text, "--clickhouse")
		require.NotContains(t, text, "\n")
		if s.DecryptedSecureJSONData["password"] != "" {
			require.NotContains(t, text, s.DecryptedSecureJSONData["password"])
		}
	}
}

// TLS is spoken to a server whose authority is pasted into the settings.
func TestTLS(t *testing.T) {
	dsn := clickhousetest.DSN(t)
	tablesAt(t, dsn)
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	front := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: u.Host}))
	front.Config.ErrorLog = log.New(io.Discard, "", 0) // it says of each handshake that was refused
	front.StartTLS()
	defer front.Close()
	at, err := url.Parse(front.URL)
	require.NoError(t, err)
	port, err := strconv.Atoi(at.Port())
	require.NoError(t, err)
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw}))
	p := started(t)
	try := func(ca string, more map[string]any) (bool, string) {
		s := settingsOf(t, dsn, func(o map[string]any) {
			o["port"], o["secure"] = port, true
			maps.Copy(o, more)
		})
		if ca != "" {
			s.DecryptedSecureJSONData["tlsCACert"] = ca
		}
		return p.health(t, s)
	}
	ok, text := try(authority, nil)
	require.True(t, ok, text)
	ok, text = try("", map[string]any{"tlsSkipVerify": true})
	require.True(t, ok, text)
	for want, c := range map[string]struct {
		ca   string
		more map[string]any
	}{
		"signed by an authority that is not known": {"", nil},
		"is for another name":                      {authority, map[string]any{"serverName": "nowhere.invalid"}},
		"no PEM certificate":                       {"rubbish", nil},
		"TLS is off":                               {authority, map[string]any{"secure": false}},
	} {
		ok, text := try(c.ca, c.more)
		require.False(t, ok, want)
		require.Contains(t, text, want)
	}
}

// What hides a function from a careless reader of SQL.
func TestGuard(t *testing.T) {
	for _, sql := range []string{
		"SELECT $$'$$, * FROM url('http://x', 'CSV') -- '", "SELECT $a$ ' $a$ FROM url('x') -- '", "SELECT ‘'’ FROM url('x') -- '", "SELECT * FROM “url”('x')",
		"SELECT * FROM \"url\"('x')", "SELECT * FROM URL\n('x')", "SELECT '\\'' , file('x') -- '", "SELECT 'a''b', file('x')", "SELECT /* ' */ file('x') -- '", "SELECT -- '\n file('x') -- '",
		"SELECT * FROM loop(s3('x'))", "SELECT * FROM icebergS3Cluster('x')", "WITH x AS (SELECT * FROM remote('h', a.b)) SELECT 1", "SELECT 1 INTO OUTFILE 'x'", "SELECT 1;SELECT 2", "", "-- SELECT", "SET a = 1", "(DROP TABLE x)",
	} {
		require.Error(t, guard(sql), sql)
	}
	for _, sql := range []string{
		"SELECT 'url(', \"a;b\" FROM t -- ; url(", "(SELECT 1) UNION ALL (SELECT 2)", "WITH 1 AS url SELECT url + 1", "SELECT file, cluster FROM t", "SELECT cutToFirstSignificantSubdomain(url) FROM t", "EXPLAIN SELECT 1", "show tables",
		"SELECT $$;url($$", "SELECT '‘', 1",
	} {
		require.NoError(t, guard(sql), sql)
	}
}

func FuzzMacros(f *testing.F) {
	f.Add("SELECT $__interval, $__timeFilter(toDateTime(a)) FROM t WHERE x = '$__from' -- $__to")
	f.Add("$__timeFilter(")
	f.Add("SELECT `a``b`, 'it\\'s' /* ; */ ;")
	m := macros{from, until, time.Minute}
	f.Fuzz(func(t *testing.T, sql string) {
		out, err := m.expand(sql)
		if err == nil && !strings.Contains(sql, "$__") && out != sql {
			t.Fatalf("%q became %q", sql, out)
		}
		_ = guard(out)
		for _, token := range tokens(sql) {
			if len(token) > len(sql)+2 {
				t.Fatalf("token %q of %q", token, sql)
			}
		}
	})
}

// Every query of our own dashboards is one that the backend takes.
func TestDashboardsAskWhatIsTaken(t *testing.T) {
	files, err := filepath.Glob("../grafana/json/kvwhatif*/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	asked := map[string]bool{}
	m := macros{from, until, time.Minute}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var dashboard any
		require.NoError(t, json.Unmarshal(raw, &dashboard))
		eachQuery(dashboard, func(q map[string]any) {
			one, err := json.Marshal(q)
			require.NoError(t, err)
			parsed, err := query.Parse(one)
			require.NoError(t, err, "%s: %s", file, one)
			if parsed.Type == query.TypeSQL {
				sql, err := m.expand(parsed.SQL)
				require.NoError(t, err, "%s: %s", file, sql)
				require.NoError(t, guard(sql), "%s: %s", file, sql)
			}
			asked[string(variable.ReplaceAll(one, []byte("'*'")))] = true
		})
	}
	t.Logf("%d queries in %d dashboards", len(asked), len(files))
	dsn := clickhousetest.DSN(t)
	tablesAt(t, dsn)
	queries := slices.Sorted(maps.Keys(asked))
	for ref, r := range started(t).query(t, settingsOf(t, dsn, nil), from, until, queries...) {
		n, err := strconv.Atoi(ref)
		require.NoError(t, err)
		require.NoError(t, r.Error, queries[n])
		require.NotEmpty(t, r.Frames, queries[n])
	}
}

// variable is one of a dashboard as it stands in SQL.
var variable = regexp.MustCompile(`\$\{\w+:\w+\}`)

func eachQuery(v any, visit func(map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		if _, is := v["queryType"]; is {
			visit(v)
		}
		for _, inner := range v {
			eachQuery(inner, visit)
		}
	case []any:
		for _, inner := range v {
			eachQuery(inner, visit)
		}
	}
}

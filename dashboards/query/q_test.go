package query

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/kvwhatif/kvwhatif/internal/migrate/migratetest"
)

// questions are one of each type, view and dimension.
func questions() (out []Question) {
	for _, kind := range Types {
		for _, view := range views[kind] {
			q := Question{Type: kind, View: view, Limit: DefaultLimit}
			switch kind {
			case TypeSQL:
				continue
			case TypeRequest:
				for _, name := range []string{"000102030405060708090a0b0c0d0e0f", "4BF92F3577B34DA6A3CE929D0E0E4736", "req-1"} {
					q.Request = name
					out = append(out, q)
				}
			case TypeVariable:
				for _, q.Of = range variables {
					out = append(out, q)
				}
			case TypeBenefit, TypeStages:
				for q.By = range byColumns {
					out = append(out, q)
					q.Source = "measured"
					out = append(out, q)
					q.Source = ""
				}
			default:
				out = append(out, q)
			}
		}
	}
	return out
}

var everything = Filter{Policy: List{"a"}, Model: List{"m"}, Path: List{"fetch"}, Tier: List{"cpu"}, Link: List{"busy", None}, Size: List{"2"}}

// answer runs a statement and holds that its columns are those it declares.
func answer(t *testing.T, conn driver.Conn, s Statement) (out []map[string]any) {
	t.Helper()
	result, err := conn.Query(t.Context(), s.SQL)
	require.NoError(t, err, s.SQL)
	defer result.Close()
	for i, c := range result.ColumnTypes() {
		require.Equal(t, s.Fields[i].Name, c.Name())
		kind := c.DatabaseTypeName()
		switch {
		case s.Fields[i].Name == "time":
			require.Contains(t, kind, "DateTime64", c.Name())
		case strings.Contains(kind, "Float64"):
			require.Equal(t, "Nullable(Float64)", kind, c.Name())
		default:
			require.Contains(t, kind, "String", c.Name())
			require.NotContains(t, kind, "Nullable", c.Name())
		}
	}
	for result.Next() {
		values := make([]any, len(s.Fields))
		for i, c := range result.ColumnTypes() {
			switch {
			case c.Name() == "time":
				values[i] = new(time.Time)
			case strings.Contains(c.DatabaseTypeName(), "Float64"):
				values[i] = new(*float64)
			default:
				values[i] = new(string)
			}
		}
		require.NoError(t, result.Scan(values...))
		row := map[string]any{}
		for i, v := range values {
			switch v := v.(type) {
			case *time.Time:
				row[s.Fields[i].Name] = v.UTC()
			case **float64:
				row[s.Fields[i].Name] = math.NaN()
				if *v != nil {
					row[s.Fields[i].Name] = **v
				}
			case *string:
				row[s.Fields[i].Name] = *v
			}
		}
		out = append(out, row)
	}
	require.NoError(t, result.Err())
	return out
}

func ask(t *testing.T, conn driver.Conn, q Question) []map[string]any {
	t.Helper()
	s, err := Build(q, q.ScopeOf(window.From, window.Until, time.Minute))
	require.NoError(t, err)
	return answer(t, conn, s)
}

func TestEveryQuestionIsAnswered(t *testing.T) {
	conn := tables(t)
	all := questions()
	for i, q := range all { // the tables are empty for the first of each type only
		if i > 0 && all[i-1].Type == q.Type {
			continue
		}
		ask(t, conn, q)
		why(t, conn, q)
	}
	fill(t, conn)
	for _, q := range all {
		require.NoError(t, q.Validate(), "%+v", q)
		ask(t, conn, q)
		q.Filter = everything
		ask(t, conn, q)
		if q.By == "" {
			why(t, conn, q)
		}
	}
}

// Upon shards every table is over all of them, and an answer is the same.
func TestQuestionsUponShards(t *testing.T) {
	one := tables(t)
	fill(t, one)
	shards := migratetest.Shards(t)
	fill(t, shards)
	seen := map[string]bool{}
	for _, q := range questions() {
		key := string(q.Type) + q.View
		if !seen[key] && q.By == "" && q.Type != TypeCalibration { // its times are those of the test
			q.Filter.Policy = List{"a", "", "*"}
			require.Equal(t, len(ask(t, one, q)), len(ask(t, shards, q)), "%+v", q)
			why(t, shards, q)
		}
		seen[key] = true
	}
}

func why(t *testing.T, conn driver.Conn, q Question) {
	t.Helper()
	var reason string
	require.NoError(t, conn.QueryRow(t.Context(), Why(q, q.ScopeOf(window.From, window.Until, time.Minute))).Scan(&reason), "%+v", q)
	require.NotEmpty(t, reason)
}

func TestAnswers(t *testing.T) {
	conn := tables(t)
	fill(t, conn)
	d, err := Data(t.Context(), conn, window)
	require.NoError(t, err)

	got := ask(t, conn, Question{Type: TypeVerdict, View: "table"})
	require.Len(t, got, len(d.Verdicts))
	require.Equal(t, "hurts", got[0]["verdict"])
	require.Equal(t, -1.0, got[0]["state"])
	require.Equal(t, []any{-0.4, -0.5, -0.3}, []any{got[0]["saved"], got[0]["low"], got[0]["high"]})
	require.Equal(t, []any{"unknown", "no control support"}, []any{got[1]["verdict"], got[1]["reason"]})
	require.True(t, math.IsNaN(got[1]["state"].(float64)), "unknown is no number")

	// The same numbers as the report's, by every dimension.
	for _, b := range d.Benefits {
		for _, row := range ask(t, conn, Question{Type: TypeBenefit, View: "table", By: b.By}) {
			if row[b.By] != b.Name && (b.Name != "" || row[b.By] != None) {
				continue
			}
			require.EqualValues(t, b.Requests, row["requests"])
			if b.Predicted != nil {
				require.InDelta(t, b.Predicted.Value, row["predicted"], 1e-9)
				require.InEpsilon(t, b.Predicted.High-b.Predicted.Low, row["predicted_high"].(float64)-row["predicted_low"].(float64), 0.01)
			}
			if b.Measured == nil {
				require.True(t, math.IsNaN(row["measured"].(float64)))
				require.NotEmpty(t, row["reason"])
				continue
			}
			require.Empty(t, row["reason"])
			require.InDelta(t, b.Measured.Value, row["measured"], 1e-9)
			require.InEpsilon(t, b.Measured.High-b.Measured.Low, row["measured_high"].(float64)-row["measured_low"].(float64), 0.01)
		}
	}
	got = ask(t, conn, Question{Type: TypeStages, View: "table", By: "link"})
	require.InDelta(t, 0.8, got[0]["ttft"], 1e-9)
	require.InDelta(t, 0.7, got[0]["exposed_stall"], 1e-9)

	got = ask(t, conn, Question{Type: TypeCoverage, View: "table"})
	require.Len(t, got, 1)
	require.EqualValues(t, d.Coverage.Requests, got[0]["requests"])
	require.EqualValues(t, d.Coverage.Orphans, got[0]["orphans"])
	require.EqualValues(t, 1, got[0]["waiting"])

	got = ask(t, conn, Question{Type: TypeDecisions, View: "worst", Limit: 5})
	require.Len(t, got, 1)
	require.Equal(t, "000102030405060708090a0b0c0d0e0f", got[0]["id"])

	got = ask(t, conn, Question{Type: TypeRequest, View: "stages", Request: "000102030405060708090a0b0c0d0e0f"})
	require.Len(t, got, 5, "what was observed, two candidates, two replays")
	require.Equal(t, "taken, observed", got[0]["what"])
	require.Equal(t, []any{"alternative, predicted", 0.625}, []any{got[2]["what"], got[2]["exposed_stall"]}, "0.25 + 0.5 of transfer, 0.125 hidden by the queue")

	got = ask(t, conn, Question{Type: TypeVariable, View: "table", Of: "link"})
	require.Contains(t, got, map[string]any{"text": None, "value": None})
	got = ask(t, conn, Question{Type: TypeCalibration, View: "terms"})
	require.Len(t, got, 1)
	require.Equal(t, "m, g", got[0]["of"])
}

func TestStudentT(t *testing.T) {
	conn := tables(t)
	for df, tolerance := range map[float64]float64{4: 0.004, 9: 0.001, 30: 0.0005, 1000: 0.0001} {
		var got float64
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT "+studentT(itoa(int(df)))).Scan(&got))
		require.InEpsilon(t, distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(0.975), got, tolerance)
	}
}

var hostile = []string{"'", `\`, `\'`, "'; DROP TABLE slices; --", "a') OR 1=1 --", "\x00", "\xff", "{x:String}", "?", "$1", "@a", "'' UNION SELECT 1", "/*", "\n", "ä", "`", "${link}"}

// A filter is only ever a value, whatever it holds.
func TestValuesAreNoSQL(t *testing.T) {
	conn := tables(t)
	fill(t, conn)
	for _, text := range hostile {
		var back string
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT "+Quote(text)).Scan(&back))
		require.Equal(t, text, back)
		q := Question{Type: TypeBenefit, View: "table", Filter: Filter{Policy: List{text}, Model: List{text}, Path: List{text}, Tier: List{text}, Link: List{text}, Size: List{text}}}
		require.Empty(t, ask(t, conn, q), text)
		require.Empty(t, ask(t, conn, Question{Type: TypeRequest, View: "stages", Request: text + "x"}), text)
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ in, err string }{
		{`{"queryType":"benefit","by":"link","filter":{"link":"a","path":["fetch","*"]},"refId":"A","datasource":{"uid":"x"}}`, ""},
		{`{"queryType":"verdict","filter":{"link":null,"path":""}}`, ""},
		{`{`, "cannot be read"},
		{`{}`, `query type "" is not known`},
		{`{"queryType":"magic"}`, "choose one of verdict, benefit"},
		{`{"queryType":"benefit","view":"pie"}`, "choose one of table, series"},
		{`{"queryType":"benefit","by":"colour"}`, "nothing to break down by"},
		{`{"queryType":"benefit","source":"guessed"}`, "choose predicted or measured"},
		{`{"queryType":"decisions","limit":-1}`, "choose 1 to 10000"},
		{`{"queryType":"decisions","limit":10001}`, "choose 1 to 10000"},
		{`{"queryType":"sql","sql":" "}`, "the SQL is empty"},
		{`{"queryType":"request"}`, "no request is named"},
		{`{"queryType":"variable","of":"worker"}`, "choose one of policy"},
		{`{"queryType":"benefit","filter":{"link":7}}`, "a list of strings"},
	} {
		_, err := Parse([]byte(c.in))
		if c.err == "" {
			require.NoError(t, err, c.in)
			continue
		}
		require.ErrorContains(t, err, c.err, c.in)
	}
	q, err := Parse([]byte(`{"queryType":"benefit","filter":{"link":"a","path":["fetch","*"]}}`))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"link": "'a'"}, q.ScopeOf(window.From, window.Until, 0).Only, "* is no filter")
	require.Equal(t, "60", q.ScopeOf(window.From, window.Until, time.Second).Step)
}

// FuzzParse holds that what is taken is built, and is the same when read again.
func FuzzParse(f *testing.F) {
	for _, q := range questions() {
		b, _ := json.Marshal(q)
		f.Add(b)
	}
	f.Add([]byte(`{"queryType":"benefit","filter":{"link":"'","size":["-1"]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := Parse(b)
		if err != nil || q.Type == TypeSQL {
			return
		}
		s := q.ScopeOf(window.From, window.Until, time.Minute)
		built, err := Build(q, s)
		if err != nil || len(built.Fields) == 0 || Why(q, s) == "" {
			t.Fatalf("%+v is taken and not built: %v", q, err)
		}
		again, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		second, err := Parse(again)
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		if third, _ := json.Marshal(second); string(third) != string(again) {
			t.Fatalf("%s became %s", again, third)
		}
	})
}

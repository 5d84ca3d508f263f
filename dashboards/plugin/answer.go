package plugin

import (
	"context"
	"fmt"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/kvwhatif/kvwhatif/dashboards/query"
)

// answer asks ClickHouse and makes frames of what comes back.
func (d *Datasource) answer(ctx context.Context, q query.Question, asked backend.DataQuery) (data.Frames, error) {
	limited, err := d.limits(ctx)
	if err != nil {
		return nil, err
	}
	width := step(asked)
	scope := q.ScopeOf(asked.TimeRange.From, asked.TimeRange.To, width)
	statement, err := d.statement(q, scope, macros{asked.TimeRange.From, asked.TimeRange.To, asked.Interval})
	if err != nil {
		return nil, err
	}
	frame, cut, err := d.read(limited, statement)
	if err != nil {
		return nil, err
	}
	frame.Meta = &data.FrameMeta{ExecutedQueryString: statement.SQL, PreferredVisualization: data.VisTypeTable}
	if cut {
		notice(frame, data.NoticeSeverityWarning, fmt.Sprintf("only the first %d rows are shown: the limit of the data source; narrow the query, or raise the limit in its settings", frame.Rows()))
	}
	if frame.Rows() == 0 {
		notice(frame, data.NoticeSeverityInfo, "no data: "+d.why(limited, q, scope))
	}
	return shape(frame, statement, width)
}

// statement is the SQL of a question; raw SQL is expanded and looked at first.
func (d *Datasource) statement(q query.Question, scope query.Scope, m macros) (query.Statement, error) {
	if q.Type != query.TypeSQL {
		return query.Build(q, scope)
	}
	sql, err := m.expand(q.SQL)
	if err != nil {
		return query.Statement{}, err
	}
	out := query.Statement{SQL: strings.TrimRight(strings.TrimSpace(sql), "; \n\t"), Shape: query.ShapeTable}
	if q.View == "series" {
		out.Shape = query.ShapeSeries
	}
	return out, guard(out.SQL)
}

// why asks what is missing; that it can not be asked is no error of the answer.
func (d *Datasource) why(ctx context.Context, q query.Question, scope query.Scope) string {
	var reason string
	if err := d.conn.QueryRow(ctx, query.Why(q, scope)).Scan(&reason); err != nil {
		return "why could not be found: " + explain(err)
	}
	return reason
}

func notice(f *data.Frame, severity data.NoticeSeverity, text string) {
	f.Meta.Notices = append(f.Meta.Notices, data.Notice{Severity: severity, Text: text})
}

// read runs a statement and reads at most the rows and text that are allowed; cut
// says that there was more. It stops reading by itself, for a user can take away
// the limits of the server by a SETTINGS clause of his own.
func (d *Datasource) read(ctx context.Context, s query.Statement) (frame *data.Frame, cut bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before the rows are closed, so that no more of them are read
	rows, err := d.conn.Query(ctx, s.SQL)
	if err != nil {
		return nil, false, err
	}
	columns := make([]*column, len(rows.ColumnTypes()))
	for i, c := range rows.ColumnTypes() {
		columns[i] = newColumn(c, fieldOf(s, i, c))
	}
	cut, err = d.fill(rows, columns)
	if cut {
		cancel()
		_ = rows.Close()
	} else if closing := rows.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return nil, false, err
	}
	frame = data.NewFrame("")
	for _, c := range columns {
		frame.Fields = append(frame.Fields, c.field)
	}
	if len(columns) == 0 { // over HTTP an empty answer has no columns
		for _, f := range s.Fields {
			frame.Fields = append(frame.Fields, emptyField(f))
		}
	}
	return frame, cut, nil
}

func (d *Datasource) fill(rows driver.Rows, columns []*column) (cut bool, err error) {
	targets := make([]any, len(columns))
	text := 0
	for n := 0; rows.Next(); n++ {
		if n == d.settings.RowLimit || text > maxTextBytes {
			return true, nil
		}
		for i, c := range columns {
			targets[i] = c.target()
		}
		if err := rows.Scan(targets...); err != nil {
			return false, fmt.Errorf("read the answer: %w", err)
		}
		for _, c := range columns {
			text += c.take()
		}
	}
	return false, rows.Err()
}

// fieldOf is what a statement declares of a column; raw SQL declares nothing.
func fieldOf(s query.Statement, i int, c driver.ColumnType) query.Field {
	if i < len(s.Fields) {
		return s.Fields[i]
	}
	return query.Field{Name: c.Name()}
}

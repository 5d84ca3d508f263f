package plugin

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/migrate"
)

// tables that are read, and must be there.
var tables = []string{"requests", "slices", "worst", "waiting", "transfers", "replays", "estimates", "verdicts", "coefficients", "coordinator_status"}

// CheckHealth says whether this data source can answer and, where it can not, what
// is wrong and what to do.
func (d *Datasource) CheckHealth(ctx context.Context, _ *backend.CheckHealthRequest) (*backend.CheckHealthResult, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if d.broken != nil {
		return unhealthy(d.broken.Error()), nil
	}
	for _, check := range []func(context.Context) error{d.reachable, d.rights, d.complete, d.selects} {
		if err := check(ctx); err != nil {
			return unhealthy(explain(err)), nil
		}
	}
	text, details := d.state(ctx)
	return &backend.CheckHealthResult{Status: backend.HealthStatusOk, Message: text, JSONDetails: details}, nil
}

func unhealthy(text string) *backend.CheckHealthResult {
	return &backend.CheckHealthResult{Status: backend.HealthStatusError, Message: text}
}

func (d *Datasource) reachable(ctx context.Context) error { return d.conn.Ping(ctx) }

func (d *Datasource) rights(ctx context.Context) error {
	d.mu.Lock()
	d.readonly = -1 // it may have been changed
	d.mu.Unlock()
	_, err := d.limits(ctx)
	return err
}

// complete looks whether all tables are there, as this version knows them.
func (d *Datasource) complete(ctx context.Context) error {
	var have []string
	if err := d.conn.QueryRow(ctx, "SELECT groupArray(name) FROM system.tables WHERE database = currentDatabase()").Scan(&have); err != nil {
		return fmt.Errorf("list the tables: %w", err)
	}
	missing := slices.DeleteFunc(slices.Clone(tables), func(name string) bool { return slices.Contains(have, name) })
	switch {
	case len(missing) == len(tables):
		return &refusal{fmt.Sprintf("the database %s has no tables of kvwhatif, or the user may not see them: name the right database, run kvwhatif migrate, or GRANT SELECT ON %s.* to the user", d.settings.Database, d.settings.Database)}
	case len(missing) > 0:
		return &refusal{fmt.Sprintf("the database %s lacks the tables %s, or the user may not see them: run kvwhatif migrate, or GRANT SELECT ON %s.* to the user", d.settings.Database, strings.Join(missing, ", "), d.settings.Database)}
	}
	return d.current(ctx)
}

// current looks whether the tables are those that this version reads.
func (d *Datasource) current(ctx context.Context) error {
	steps, err := migrate.Pending(ctx, d.conn)
	switch {
	case errors.Is(err, migrate.ErrNewer):
		return &refusal{"the database was made by a newer kvwhatif than this data source: update the plugin"}
	case errors.Is(err, migrate.ErrChanged):
		return &refusal{"the tables are not those of a kvwhatif that this data source knows: update the plugin, or see what kvwhatif migrate says"}
	case codeOf(err) == 497, codeOf(err) == 60:
		return nil // a user who may not read the list of changes can read the tables
	case err != nil:
		return fmt.Errorf("look at the age of the tables: %w", err)
	case len(steps) > 0:
		return &refusal{fmt.Sprintf("the tables are too old for this data source (%d changes are missing, the next is %s): run kvwhatif migrate", len(steps), steps[0].Name)}
	}
	return nil
}

// selects reads of every table, so that a right that is missing is found here.
func (d *Datasource) selects(ctx context.Context) error {
	for _, table := range tables {
		rows, err := d.conn.Query(ctx, "SELECT 1 FROM "+table+" LIMIT 1")
		if err == nil {
			err = rows.Close()
		}
		if err != nil {
			return fmt.Errorf("read the table %s: %w", table, err)
		}
	}
	return nil
}

// state is what a healthy data source says of itself.
func (d *Datasource) state(ctx context.Context) (string, []byte) {
	var version string
	var minute time.Time
	var verdicts uint64
	sql := "SELECT version(), (SELECT max(minute) FROM slices), (SELECT count() FROM verdicts)"
	if err := d.conn.QueryRow(ctx, sql).Scan(&version, &minute, &verdicts); err != nil {
		return "ClickHouse answers, and its tables are there.", nil
	}
	text := fmt.Sprintf("ClickHouse %s answers, its tables are there.", version)
	if minute.Unix() <= 0 {
		text += " No request was loaded yet: send spans to kvwhatif collect."
	} else {
		text += fmt.Sprintf(" The newest minute is %s UTC.", minute.UTC().Format("2006-01-02 15:04"))
		if verdicts == 0 {
			text += " No verdict was given yet: run kvwhatif verdict."
		}
	}
	d.mu.Lock()
	level := d.readonly
	d.mu.Unlock()
	if level == 0 {
		text += " The user may write: its queries are held to reading, but one with readonly = 2 is safer."
	}
	details, _ := json.Marshal(map[string]any{"clickhouse": version, "readonly": level, "newest": minute.UTC(), "verdicts": verdicts})
	return text, details
}

// codeOf is ClickHouse's number of an error, 0 where it has none.
func codeOf(err error) int {
	var e *ch.Exception
	if errors.As(err, &e) {
		return int(e.Code)
	}
	return 0
}

// advice for errors of ClickHouse, by code, in words of a data source's page.
var advice = map[int]string{
	60:  "a table is missing: run kvwhatif migrate, or name the right database",
	81:  "the database does not exist: correct its name in the data source's settings",
	158: "the query would read too many rows: narrow its time range",
	159: "the query took too long: narrow its time range, or raise the timeout in the data source's settings",
	160: "the query would take too long: narrow its time range, or raise the timeout in the data source's settings",
	164: "only reading is allowed",
	192: "the user does not exist: correct it in the data source's settings",
	193: "wrong password: correct it in the data source's settings",
	194: "a password is needed: give it in the data source's settings",
	241: "ClickHouse has too little memory for this query: narrow its time range",
	396: "the answer is too large: narrow the query, or aggregate in it",
	497: "the user may not read this: GRANT SELECT on the database to it",
	516: "ClickHouse refused the user or the password: correct them in the data source's settings",
}

// explain is an error on one line, with what to do.
func explain(err error) string {
	var refused *refusal
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var dns *net.DNSError
	switch {
	case errors.As(err, &refused):
		return refused.text
	case errors.Is(err, context.DeadlineExceeded):
		return "ClickHouse did not answer in time: see that the host and port are right, narrow the time range, or raise the timeout in the data source's settings"
	case errors.As(err, &unknown):
		return "the certificate of ClickHouse is signed by an authority that is not known here: paste it as CA certificate in the data source's settings"
	case errors.As(err, &name):
		return "the certificate of ClickHouse is for another name: give that as server name in the data source's settings"
	case errors.As(err, &dns):
		return fmt.Sprintf("there is no address of the host %q: correct it in the data source's settings", dns.Name)
	}
	text := strings.ReplaceAll(clickhouse.Classify(err).Text, "--clickhouse", "the data source's settings")
	if known, ok := advice[codeOf(err)]; ok {
		return fmt.Sprintf("%s (%s)", known, strings.TrimPrefix(text, "ClickHouse: "))
	}
	return text
}

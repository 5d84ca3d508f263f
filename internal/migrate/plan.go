package migrate

import (
	"context"
	"fmt"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/schema/ddl"
)

// changeBase is added to the number of a change to make its version in
// schema_migrations, so that an older kvwhatif, which knows no changes, refuses
// a database that has them as newer.
const changeBase = 10_000

// Step is one thing to do, or done.
type Step struct {
	Name       string   `json:"name"`       // "create 0001_requests", "change 0001_slices_shard"
	Statements []string `json:"statements"` // empty: recorded only, for tables that were made in the present form
	version    int
	name       string // as recorded
	digest     string
}

// definitions are what a database is brought to.
type definitions struct {
	objects []ddl.Object
	changes []ddl.Change
}

func current() definitions { return definitions{ddl.Objects(), ddl.Changes()} }

// plan gives the steps that a database with these records lacks, in order.
func (d definitions) plan(have map[int]record) ([]Step, error) {
	if err := d.check(have); err != nil {
		return nil, err
	}
	var steps []Step
	for _, o := range d.objects {
		if _, done := have[o.Version]; !done {
			steps = append(steps, objectStep(o, o.SQL))
		}
	}
	for _, c := range d.changes {
		if _, done := have[changeBase+c.Version]; done {
			continue
		}
		s := Step{Name: fmt.Sprintf("change %04d_%s", c.Version, c.Name), version: changeBase + c.Version, name: c.Name, digest: c.Digest()}
		if len(have) > 0 {
			s.Statements = c.Statements()
		}
		steps = append(steps, s)
	}
	// After the changes, an object made in an earlier form has the present one.
	for _, o := range d.objects {
		if r, done := have[o.Version]; done && r.digest != o.Digest() {
			steps = append(steps, objectStep(o))
		}
	}
	return steps, nil
}

func objectStep(o ddl.Object, statements ...string) Step {
	verb := "create"
	if len(statements) == 0 {
		verb = "record"
	}
	return Step{Name: fmt.Sprintf("%s %04d_%s", verb, o.Version, o.Name), Statements: statements,
		version: o.Version, name: o.Name, digest: o.Digest()}
}

// check refuses a database that these definitions do not lead on from.
func (d definitions) check(have map[int]record) error {
	for version, r := range have {
		switch {
		case version > changeBase+len(d.changes):
			return fmt.Errorf("%w: it has change %04d_%s, this one knows %d changes: use the newer kvwhatif, or another database",
				ErrNewer, version-changeBase, r.name, len(d.changes))
		case version > changeBase:
			if c := d.changes[version-changeBase-1]; r.digest != c.Digest() {
				return fmt.Errorf("%w: change %04d_%s was applied in another form: use the kvwhatif that made it, or another database or directory",
					ErrChanged, c.Version, r.name)
			}
		case version > len(d.objects):
			return fmt.Errorf("%w: it has %04d_%s, this one knows %d objects: use the newer kvwhatif, or another database",
				ErrNewer, version, r.name, len(d.objects))
		default:
			if o := d.objects[version-1]; r.digest != o.Digest() && !o.Earlier(r.digest) {
				return fmt.Errorf("%w: %04d_%s was applied in a form that no release had: use the kvwhatif that made it, or another database or directory",
					ErrChanged, version, r.name)
			}
		}
	}
	return nil
}

// run takes one step and records it. A step that fails half way is taken again
// as a whole.
func run(ctx context.Context, conn driver.Conn, s Step, cluster string) error {
	for i, statement := range s.Statements {
		if err := conn.Exec(ctx, on(cluster, statement)); err != nil {
			return fmt.Errorf("%s, statement %d of %d (%s): %w: correct the cause and run `kvwhatif migrate` again, it goes on from here",
				s.Name, i+1, len(s.Statements), firstWords(statement), err)
		}
	}
	err := conn.Exec(ctx, "INSERT INTO schema_migrations (version, name, digest) SETTINGS async_insert = 0 VALUES (?, ?, ?)",
		uint32(s.version), s.name, s.digest)
	if err != nil {
		return fmt.Errorf("record %s: %w", s.Name, err)
	}
	return nil
}

// firstWords is enough of a statement to know it by.
func firstWords(sql string) string {
	words := strings.Fields(sql)
	return strings.Join(words[:min(len(words), 6)], " ")
}

package plugin

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvwhatif/kvwhatif/dashboards/query"
)

// refusal is an error of what the user wrote, before ClickHouse saw it.
type refusal struct{ text string }

// Error implements error.
func (r *refusal) Error() string { return r.text }

// macros are what $__ names in raw SQL stand for.
type macros struct {
	from, until time.Time
	interval    time.Duration
}

var macro = regexp.MustCompile(`\$__\w+`)

// expand puts the range and the interval into raw SQL, outside of strings and
// comments too, for a macro has no other meaning there:
//
//	$__timeFilter(column)  column >= from AND column < until
//	$__interval            a number and a unit, for INTERVAL and toStartOfInterval
//	$__interval_s, _ms     a number
//	$__from, $__to         milliseconds since 1970
//	$__fromTime, $__toTime instants
func (m macros) expand(sql string) (string, error) {
	var b strings.Builder
	for {
		at := macro.FindStringIndex(sql)
		if at == nil {
			b.WriteString(sql)
			return b.String(), nil
		}
		name := sql[at[0]:at[1]]
		b.WriteString(sql[:at[0]])
		sql = sql[at[1]:]
		if name == "$__timeFilter" {
			column, rest, err := argument(sql)
			if err != nil {
				return "", err
			}
			sql = rest
			b.WriteString("(" + column + " >= " + instant(m.from) + " AND " + column + " < " + instant(m.until) + ")")
			continue
		}
		text, err := m.value(name)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
}

func (m macros) value(name string) (string, error) {
	seconds := max(1, int64(m.interval/time.Second))
	switch name {
	case "$__interval":
		return strconv.FormatInt(seconds, 10) + " SECOND", nil
	case "$__interval_s":
		return strconv.FormatInt(seconds, 10), nil
	case "$__interval_ms":
		return strconv.FormatInt(max(1, m.interval.Milliseconds()), 10), nil
	case "$__from":
		return strconv.FormatInt(m.from.UnixMilli(), 10), nil
	case "$__to":
		return strconv.FormatInt(m.until.UnixMilli(), 10), nil
	case "$__fromTime":
		return instant(m.from), nil
	case "$__toTime":
		return instant(m.until), nil
	}
	return "", &refusal{fmt.Sprintf("macro %s is not known: there are $__timeFilter(column), $__interval, $__interval_s, $__interval_ms, $__from, $__to, $__fromTime and $__toTime", name)}
}

func instant(t time.Time) string {
	return "toDateTime64(" + query.Quote(t.UTC().Format("2006-01-02 15:04:05.000")) + ", 3, 'UTC')"
}

// argument is what stands in the parentheses that s begins with, and what follows.
func argument(s string) (inside, rest string, err error) {
	open := strings.TrimLeft(s, " \t\n")
	if strings.HasPrefix(open, "(") {
		depth := 0
		for i, c := range open {
			switch c {
			case '(':
				depth++
			case ')':
				if depth--; depth == 0 {
					inside = strings.TrimSpace(open[1:i])
					rest = open[i+1:]
					if inside != "" {
						return inside, rest, nil
					}
					return "", "", &refusal{"$__timeFilter needs a column: write $__timeFilter(minute)"}
				}
			}
		}
	}
	return "", "", &refusal{"$__timeFilter needs a column in parentheses: write $__timeFilter(minute)"}
}

// first words of statements that only read.
var reads = []string{"SELECT", "WITH", "EXPLAIN", "DESCRIBE", "DESC", "SHOW", "EXISTS"}

// outward are functions that read files, other servers or programs: by name, and by
// how their names begin. The server may allow them to a user that may only read; a
// panel has no use for them.
var (
	outward = []string{
		"arrowflight", "catboostevaluate", "cluster", "clusterallreplicas", "cosn", "executable", "file", "filecluster", "filesystem", "gcs", "hive", "input", "jdbc",
		"mongodb", "mysql", "odbc", "oss", "postgresql", "python", "redis", "remote", "remotesecure", "s3", "s3cluster", "s3queue", "sqlite", "url", "urlcluster", "ytsaurus",
	}
	outwardFamily = regexp.MustCompile("^(azureblobstorage|azurequeue|deltalake|hdfs|hudi|iceberg|paimon)")
)

func reachesOut(function string) bool {
	name := strings.ToLower(function)
	return slices.Contains(outward, name) || outwardFamily.MatchString(name)
}

// heredoc begins a text that ends by the same mark.
var heredoc = regexp.MustCompile(`^\$\w*\$`)

var word = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*`)

// guard refuses raw SQL that is no single reading statement, or that reaches out of
// the database. It is the second fence: the first is the server's, which runs it
// with readonly = 2.
func guard(sql string) error {
	first, previous := "", ""
	for _, token := range tokens(sql) {
		if first == "" && token != "(" {
			first = strings.ToUpper(token)
			if !slices.Contains(reads, first) {
				return &refusal{"only statements that read are allowed: begin with SELECT or WITH"}
			}
		}
		if token == ";" {
			return &refusal{"only one statement is allowed: remove what stands behind the semicolon"}
		}
		if token == "(" && reachesOut(previous) {
			return &refusal{fmt.Sprintf("%s() reads what is not in this database, and is not allowed here", previous)}
		}
		if upper := strings.ToUpper(token); upper == "OUTFILE" && strings.EqualFold(previous, "INTO") {
			return &refusal{"INTO OUTFILE is not allowed here"}
		}
		previous = token
	}
	if first == "" {
		return &refusal{"the SQL is empty: write a SELECT"}
	}
	return nil
}

// tokens are the words and signs of SQL, without comments and strings; a quoted
// name is its content, as it can name a function too.
func tokens(sql string) (out []string) {
	for len(sql) > 0 {
		switch {
		case strings.HasPrefix(sql, "--"), strings.HasPrefix(sql, "#!"), strings.HasPrefix(sql, "# "):
			_, sql, _ = strings.Cut(sql, "\n")
		case strings.HasPrefix(sql, "/*"):
			_, sql, _ = strings.Cut(sql[2:], "*/")
		case heredoc.MatchString(sql):
			mark := heredoc.FindString(sql)
			_, sql, _ = strings.Cut(sql[len(mark):], mark)
			out = append(out, "''")
		case strings.HasPrefix(sql, "‘"): // ClickHouse takes typographic quotes too
			_, sql, _ = strings.Cut(sql, "’")
			out = append(out, "''")
		case strings.HasPrefix(sql, "“"):
			inside, rest, _ := strings.Cut(sql[len("“"):], "”")
			sql, out = rest, append(out, inside)
		case sql[0] == '\'', sql[0] == '"', sql[0] == '`':
			end := quoteEnd(sql)
			if sql[0] != '\'' {
				out = append(out, strings.Trim(sql[:end], "\"`"))
			} else {
				out = append(out, "''")
			}
			sql = sql[end:]
		case strings.ContainsRune(" \t\r\n\f\v", rune(sql[0])):
			sql = sql[1:]
		default:
			n := max(1, len(word.FindString(sql)))
			out = append(out, sql[:n])
			sql = sql[n:]
		}
	}
	return out
}

// quoteEnd is where the quoted text that s begins with has ended. A sign behind a
// backslash does not end it; a doubled one looks like two texts, which is the same here.
func quoteEnd(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return len(s)
}

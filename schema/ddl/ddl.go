// Package ddl holds the tables of ClickHouse, one object a file, applied by
// internal/migrate in the order of their file names, and the changes that bring
// a database of an earlier kvwhatif to the same (changes/). What each column
// means and who owns it is in the files and in schema/FORMAT.md.
package ddl

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

//go:embed *.sql
var files embed.FS

// Object is one file: one statement, which can be run again without harm.
type Object struct {
	Version int    // the number that its file name begins with, from 1, without gaps
	Name    string // file name without number and ending, such as "requests"
	SQL     string
}

var fileName = regexp.MustCompile(`^(\d{4})_([a-z0-9_]+)\.sql$`)

// Objects gives all objects in the order in which they are applied. A misnamed
// file or a gap in the numbers is an error of the build, and panics.
func Objects() []Object {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		panic(err)
	}
	objects := make([]Object, 0, len(entries))
	for i, e := range entries {
		o, err := readFile(files, e.Name())
		if err == nil && o.Version != i+1 {
			err = fmt.Errorf("%s: expected number %04d", e.Name(), i+1)
		}
		if err != nil {
			panic(fmt.Sprintf("schema/ddl: %v", err))
		}
		objects = append(objects, o)
	}
	return objects
}

func readFile(from embed.FS, file string) (Object, error) {
	m := fileName.FindStringSubmatch(path.Base(file))
	if m == nil {
		return Object{}, fmt.Errorf("%s is not named NNNN_name.sql", file)
	}
	body, err := from.ReadFile(file)
	if err != nil {
		return Object{}, err
	}
	version, err := strconv.Atoi(m[1])
	return Object{Version: version, Name: m[2], SQL: string(body)}, err
}

var (
	comment = regexp.MustCompile(`(?m)--.*$`)
	space   = regexp.MustCompile(`\s+`)
)

// Digest is a hash of the statement that a change of comments or spacing leaves
// as it is: 16 hex digits.
func (o Object) Digest() string {
	s := space.ReplaceAllString(comment.ReplaceAllString(o.SQL, ""), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(s)))
	return hex.EncodeToString(sum[:8])
}

// The buckets of slices.ttft_hist.
const (
	// TTFTBuckets is how many there are.
	TTFTBuckets = 129
	// TTFTBucketsPerOctave is how many a doubling is cut into.
	TTFTBucketsPerOctave = 8
	// TTFTFirstBound is the upper bound of the first, seconds.
	TTFTFirstBound = 0.001
)

package ddl

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

//go:embed changes/*
var changeFiles embed.FS

// Change is one file of changes/: statements that bring tables which an earlier
// kvwhatif made to the form that the objects have now. Each statement can be
// run again without harm, on a table of the earlier or of the present form.
type Change struct {
	Version int    // the number that its file name begins with, from 1, without gaps
	Name    string // file name without number and ending, such as "slices_shard"
	SQL     string // the whole file
}

// Changes gives all changes in the order in which they are applied. A misnamed
// file or a gap in the numbers is an error of the build, and panics.
func Changes() []Change {
	names, err := fs.Glob(changeFiles, "changes/*.sql")
	if err != nil {
		panic(err)
	}
	slices.Sort(names)
	changes := make([]Change, 0, len(names))
	for i, path := range names {
		o, err := readFile(changeFiles, path)
		if err == nil && o.Version != i+1 {
			err = fmt.Errorf("%s: expected number %04d", path, i+1)
		}
		if err != nil {
			panic(fmt.Sprintf("schema/ddl: %v", err))
		}
		changes = append(changes, Change(o))
	}
	return changes
}

// Digest is that of Object.Digest.
func (c Change) Digest() string { return Object(c).Digest() }

// Statements are the statements of the file, in order, without comments.
func (c Change) Statements() (list []string) {
	for s := range strings.SplitSeq(comment.ReplaceAllString(c.SQL, ""), ";") {
		if s = strings.TrimSpace(s); s != "" {
			list = append(list, s)
		}
	}
	return list
}

// Earlier says whether the digest is that of a form which the object had in an
// earlier kvwhatif: one that the changes lead on from. They are listed in
// changes/earlier.txt, a line "NNNN_name digest" each.
func (o Object) Earlier(digest string) bool {
	body, err := changeFiles.ReadFile("changes/earlier.txt")
	if err != nil {
		panic(fmt.Sprintf("schema/ddl: %v", err))
	}
	line := fmt.Sprintf("%04d_%s %s", o.Version, o.Name, digest)
	for have := range strings.Lines(string(body)) {
		if strings.TrimSpace(have) == line {
			return true
		}
	}
	return false
}

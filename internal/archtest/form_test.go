package archtest

import (
	"bytes"
	"go/ast"
	"go/format"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Nine in ten are at most this long.
const (
	longFunction = 35
	longFile     = 300
)

func TestPackageComments(t *testing.T) {
	has := map[string]bool{}
	for _, s := range allSources(t) {
		has[s.Dir()] = has[s.Dir()] || s.AST.Doc != nil
	}
	for dir, documented := range has {
		if !documented {
			t.Errorf("package %s has no package comment", dir)
		}
	}
}

func TestPackageNames(t *testing.T) {
	forbidden := []string{"util", "utils", "common", "helper", "helpers", "misc", "shared"}
	for _, s := range allSources(t) {
		if slices.Contains(forbidden, s.AST.Name.Name) || slices.Contains(forbidden, filepath.Base(s.Dir())) {
			t.Errorf("%s: a package named %s says nothing", s.Path, s.AST.Name.Name)
		}
	}
}

func TestGofmt(t *testing.T) {
	for _, s := range allSources(t) {
		formatted, err := format.Source(s.Text)
		require.NoError(t, err, s.Path)
		if !bytes.Equal(formatted, s.Text) {
			t.Errorf("%s is not gofmt-ed", s.Path)
		}
	}
}

// Exported names carry a doc comment. Methods of unexported types need none,
// nor do the names inside one const or var block that has a comment.
func TestExportedNamesAreDocumented(t *testing.T) {
	for _, s := range allSources(t) {
		if s.Test {
			continue
		}
		for _, d := range s.AST.Decls {
			for _, name := range undocumented(d) {
				t.Errorf("%s: %s has no doc comment", s.Set.Position(d.Pos()), name)
			}
		}
	}
}

func undocumented(d ast.Decl) []string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		var names []string
		for _, spec := range d.Specs {
			if d.Doc == nil {
				names = append(names, undocumentedSpec(spec)...)
			}
		}
		return names
	}
	return nil
}

func undocumentedSpec(spec ast.Spec) []string {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if spec.Doc == nil && spec.Name.IsExported() {
			return []string{spec.Name.Name}
		}
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			if spec.Doc == nil && spec.Comment == nil && name.IsExported() {
				return []string{name.Name}
			}
		}
	}
	return nil
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

func TestLengths(t *testing.T) {
	var functions, files []int
	for _, s := range allSources(t) {
		if s.Test {
			continue
		}
		files = append(files, s.Lines)
		ast.Inspect(s.AST, func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncDecl); ok && f.Body != nil {
				functions = append(functions, s.Set.Position(f.End()).Line-s.Set.Position(f.Pos()).Line+1)
			}
			return true
		})
	}
	checkShare(t, "functions", functions, longFunction)
	checkShare(t, "files", files, longFile)
}

func checkShare(t *testing.T, what string, lengths []int, limit int) {
	t.Helper()
	slices.Sort(lengths)
	nine := lengths[len(lengths)*9/10]
	t.Logf("%d %s: half at most %d lines, nine in ten %d, the longest %d", len(lengths), what, lengths[len(lengths)/2], nine, lengths[len(lengths)-1])
	if nine > limit {
		t.Errorf("nine in ten %s are at most %d lines, and must be at most %d", what, nine, limit)
	}
}

// unwanted words, cut in two so that this file does not hold them.
var unwanted = map[string]string{
	"TO" + "DO": "do it, or open an issue", "FIX" + "ME": "fix it, or open an issue", "XX" + "X:": "fix it, or open an issue",
	"registry.npm" + "js.org": "no registry host", "proxy.go" + "lang.org": "no registry host", "py" + "pi.org": "no registry host",
	"repo1.mav" + "en.org": "no registry host", "repo.mav" + "en.apache.org": "no registry host",
}

func TestNothingUnwantedIsWritten(t *testing.T) {
	read := []string{".go", ".sh", ".md", ".sql", ".yaml", ".yml", ".json", ".ts", ".tsx", ".xml", ".proto", ""}
	require.NoError(t, Walk(root, func(path string) error {
		if !slices.Contains(read, filepath.Ext(path)) {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil || bytes.IndexByte(text, 0) >= 0 {
			return err
		}
		for word, why := range unwanted {
			if i := bytes.Index(text, []byte(word)); i >= 0 {
				t.Errorf("%s:%d holds %q: %s", path, 1+bytes.Count(text[:i], []byte("\n")), word, why)
			}
		}
		return nil
	}))
}

// The engine that make installs is the one that the program looks for.
func TestEnginePins(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(root, "deploy", "install-clickhouse.sh"))
	require.NoError(t, err)
	engine, err := os.ReadFile(filepath.Join(root, "internal", "clickhouse", "engine.go"))
	require.NoError(t, err)
	_, after, found := strings.Cut(string(script), "\nversion=")
	require.True(t, found)
	version, _, _ := strings.Cut(after, "\n")
	require.NotEmpty(t, version)
	require.Contains(t, string(engine), `EngineVersion = "`+version+`"`)
}

package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Module is the import path of this code base.
const Module = "github.com/kvwhatif/kvwhatif"

// Package is what `go list` knows of a package of ours.
type Package struct {
	Path        string   // relative to the module: "schema/cost"
	Imports     []string // of the code
	TestImports []string // of its tests
}

// Packages lists the packages of the module at root, with any build tags.
func Packages(root string, tags ...string) ([]Package, error) {
	cmd := exec.Command("go", "list", "-tags="+strings.Join(tags, ","), "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = root
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, errs.String())
	}
	var packages []Package
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath                         string
			Imports, TestImports, XTestImports []string
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("read go list: %w", err)
		}
		path := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, Module), "/")
		packages = append(packages, Package{Path: path, Imports: p.Imports, TestImports: append(p.TestImports, p.XTestImports...)})
	}
}

// Source is one Go file that people wrote.
type Source struct {
	Path  string // relative to the module
	Text  []byte
	Lines int
	AST   *ast.File
	Set   *token.FileSet
	Test  bool
}

// Dir is the file's package, relative to the module.
func (s Source) Dir() string { return filepath.ToSlash(filepath.Dir(s.Path)) }

// Sources reads the Go files under root, without generated ones.
func Sources(root string) ([]Source, error) {
	var out []Source
	err := Walk(root, func(path string) error {
		if filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if !ast.IsGenerated(file) {
			out = append(out, Source{
				Path: filepath.ToSlash(path), Text: text, Lines: bytes.Count(text, []byte("\n")),
				AST: file, Set: set, Test: strings.HasSuffix(path, "_test.go"),
			})
		}
		return nil
	})
	return out, err
}

// Walk calls visit for each file under root that belongs to the code base, by
// its relative path.
func Walk(root string, visit func(path string) error) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata" || (filepath.Dir(path) == root && name == "bin")) {
				return fs.SkipDir
			}
			return nil
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return visit(relative)
	})
}

// Command pack makes the plugin's zip as Grafana takes it: module.js, plugin.json and
// the backend for each system that is supported.
package main

import (
	"archive/zip"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/kvwhatif/kvwhatif/dashboards/plugin"
)

// systems that the backend is built for.
var systems = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}

// files of the zip beside the backends, by their place in the repository.
var files = map[string]string{
	"dashboards/plugin/plugin.json": "plugin.json", "dashboards/plugin/module.js": "module.js", "dashboards/plugin/README.md": "README.md",
	"dashboards/plugin/CHANGELOG.md": "CHANGELOG.md", "dashboards/plugin/img/logo.svg": "img/logo.svg", "LICENSE": "LICENSE", "NOTICE": "NOTICE",
}

func main() {
	out := flag.String("out", "bin", "directory of the zip, and of what is in it")
	flags := flag.String("flags", "-trimpath -ldflags=-s", "flags of go build")
	only := flag.String("systems", strings.Join(systems, ","), "GOOS/GOARCH of the backends")
	flag.Parse()
	path, err := pack(*out, strings.Split(*only, ","), strings.Fields(*flags))
	if err != nil {
		fmt.Fprintln(os.Stderr, "pack the plugin:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}

// pack makes the directory of the plugin anew, and its zip beside it.
func pack(out string, systems, flags []string) (string, error) {
	dir := filepath.Join(out, plugin.ID)
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	for from, to := range files {
		b, err := os.ReadFile(from)
		if err != nil {
			return "", fmt.Errorf("%w: run this from the root of the repository", err)
		}
		target := filepath.Join(dir, to)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(target, b, 0o644); err != nil {
			return "", err
		}
	}
	for _, system := range systems {
		if err := backend(dir, system, flags); err != nil {
			return "", fmt.Errorf("build the backend for %s: %w", system, err)
		}
	}
	path := filepath.Join(out, plugin.ID+".zip")
	return path, compress(path, out, dir)
}

func backend(dir, system string, flags []string) error {
	goos, goarch, ok := strings.Cut(system, "/")
	if !ok {
		return fmt.Errorf("%q is not GOOS/GOARCH", system)
	}
	args := append([]string{"build", "-o", filepath.Join(dir, "gpx_kvwhatif_"+goos+"_"+goarch)}, flags...)
	cmd := exec.Command("go", append(args, "./dashboards/plugin/main")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// compress zips a directory. Its times are fixed, so that the same sources make the
// same zip.
func compress(path, root, dir string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	z := zip.NewWriter(f)
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return add(z, root, name, d)
	})
	if err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Close()
}

func add(z *zip.Writer, root, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	relative, err := filepath.Rel(root, name)
	if err != nil {
		return err
	}
	header := &zip.FileHeader{Name: filepath.ToSlash(relative), Method: zip.Deflate, Modified: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	header.SetMode(info.Mode().Perm())
	w, err := z.CreateHeader(header)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

package kafkatest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// Version of Apache Kafka that the tests run against.
const Version = "4.4.0"

// copyPlugin is pinned, for Maven would otherwise choose one by its own age.
const copyPlugin = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

//go:embed pom.xml
var pom []byte

// ErrNotHere is wrapped where this machine has no Java or no Maven.
var ErrNotHere = errors.New("Apache Kafka cannot run here")

// Install puts the jars of Apache Kafka into the user's cache by Maven, once,
// and returns their directory. It is safe to call from several processes.
func Install(ctx context.Context) (string, error) {
	if _, err := exec.LookPath("java"); err != nil {
		return "", fmt.Errorf("%w: no java on PATH, install Java 17 or newer", ErrNotHere)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user cache: %w", err)
	}
	home := filepath.Join(cache, "kvwhatif", "kafka", Version)
	libs := filepath.Join(home, "libs")
	if installed(libs) {
		return libs, nil
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		return "", fmt.Errorf("%w: no mvn on PATH, install Maven", ErrNotHere)
	}
	if err := os.MkdirAll(home, 0o755); err != nil {
		return "", fmt.Errorf("make the Kafka cache: %w", err)
	}
	lock := flock.New(filepath.Join(home, "lock"))
	if err := lock.Lock(); err != nil {
		return "", fmt.Errorf("lock the Kafka cache: %w", err)
	}
	defer lock.Unlock()
	if installed(libs) {
		return libs, nil
	}
	return libs, download(ctx, home, libs)
}

// installed is true for a complete directory: it is moved into place whole.
func installed(libs string) bool {
	_, err := os.Stat(filepath.Join(libs, "kafka_2.13-"+Version+".jar"))
	return err == nil
}

func download(ctx context.Context, home, libs string) error {
	work, err := os.MkdirTemp(home, "download")
	if err != nil {
		return fmt.Errorf("make a directory for the Kafka download: %w", err)
	}
	defer os.RemoveAll(work)
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), pom, 0o644); err != nil {
		return fmt.Errorf("write the Kafka pom: %w", err)
	}
	cmd := exec.CommandContext(ctx, "mvn", "-B", "-q", copyPlugin, "-DoutputDirectory=libs", "-DincludeScope=runtime")
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("download Apache Kafka by Maven: %w: %s", err, lastLine(out))
	}
	_ = os.RemoveAll(libs)
	if err := os.Rename(filepath.Join(work, "libs"), libs); err != nil {
		return fmt.Errorf("move the Kafka jars into place: %w", err)
	}
	return nil
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

package clickhouse

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
)

// dsn is the address of a user of an embedded server at addr, host:port.
func dsn(addr, user, password string) string {
	u := url.URL{Scheme: "http", User: url.UserPassword(user, password), Host: addr, Path: "/" + Database}
	return u.String()
}

// Attach gives the writer's address of the server that another process has started
// on dir at port. Whether it still runs, Open tells.
func Attach(dir string, port int) (string, error) {
	path := filepath.Join(dir, usersFile)
	raw, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || port == 0:
		return "", fmt.Errorf("no embedded ClickHouse was ever started in %s", dir)
	case err != nil:
		return "", fmt.Errorf("passwords of the embedded ClickHouse: %w", err)
	}
	for _, m := range passwordOf.FindAllStringSubmatch(string(raw), -1) {
		if m[1] == Writer {
			return dsn(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Writer, m[2]), nil
		}
	}
	return "", fmt.Errorf("%s holds no password of %s: start `kvwhatif up` on its directory again, which writes it anew", path, Writer)
}

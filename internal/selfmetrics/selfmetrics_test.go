package selfmetrics

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func TestEndpoints(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	health := &Health{}
	server, err := Serve(ctx, "127.0.0.1:0", Handler(NewRegistry("load", "v1"), health))
	require.NoError(t, err)
	base := "http://" + server.Addr()

	status, body := get(t, base+"/healthz")
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"status":"ok"}`, body)
	status, body = get(t, base+"/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.JSONEq(t, `{"status":"not ready","wrong":{"start":"not finished"}}`, body)

	health.Started()
	status, _ = get(t, base+"/readyz")
	require.Equal(t, http.StatusOK, status)

	var broken error
	health.Add("kafka", func(context.Context) error { return broken })
	health.Add("clickhouse", func(context.Context) error { return nil })
	broken = errors.New("connection refused")
	status, body = get(t, base+"/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.JSONEq(t, `{"status":"not ready","wrong":{"kafka":"connection refused"}}`, body)
	broken = nil
	health.Stopping()
	status, _ = get(t, base+"/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	status, _ = get(t, base+"/healthz")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, []string{"clickhouse", "kafka"}, health.Names())

	_, body = get(t, base+"/metrics")
	require.Contains(t, body, `stage="load",version="v1"`)
	require.Contains(t, body, "go_goroutines")
	cancel()
	require.NoError(t, server.Wait())
}

func TestACheckThatHangsIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		health := &Health{}
		health.Started()
		end := make(chan struct{})
		health.Add("slow", func(context.Context) error { <-end; return nil })
		health.Add("quick", func(context.Context) error { return nil })
		began := time.Now()
		require.Equal(t, map[string]string{"slow": "the check does not answer"}, health.Ready(t.Context()))
		require.Equal(t, checkTimeout, time.Since(began))
		close(end)
	})
}

func TestServeRefusesATakenPort(t *testing.T) {
	health := &Health{}
	server, err := Serve(t.Context(), "127.0.0.1:0", Handler(NewRegistry("a", "b"), health))
	require.NoError(t, err)
	_, err = Serve(t.Context(), server.Addr(), nil)
	require.ErrorContains(t, err, "serve metrics on "+server.Addr())
}

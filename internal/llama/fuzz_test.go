package llama

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Whatever a server sends, a call ends with a result that makes sense or an error.
func FuzzStream(f *testing.F) {
	f.Add([]byte("data: {\"content\":\"\",\"prompt_progress\":{\"total\":6,\"cache\":0,\"processed\":6,\"time_ms\":0}}\n\ndata: {\"content\":\"t\",\"stop\":true,\"timings\":{\"cache_n\":0,\"prompt_n\":6}}\n\n"))
	f.Add([]byte("data: {\"error\":{\"code\":503,\"message\":\"x\"}}\n"))
	f.Add([]byte("data: {\"stop\":true,\"timings\":{\"cache_n\":-1,\"prompt_n\":2}}\n"))
	f.Add([]byte("data: \n: \n[DONE]"))
	f.Fuzz(func(t *testing.T, body []byte) {
		var now Completed
		for _, line := range [][]byte{body, body[min(6, len(body)):]} {
			_, _ = now.take(line, time.Unix(1, 0))
		}
		rec := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
		defer rec.Close()
		c, err := NewClient(rec.URL)
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.Complete(t.Context(), Completion{Prompt: []int32{1}})
		if err == nil && (out.First.Before(out.Begun) || out.Begun.Before(out.Sent) || out.Cached < 0 || out.Computed < 0) {
			t.Fatalf("%+v of %q", out, body)
		}
		_, _ = c.Metrics(t.Context())
		_, _ = c.Slots(t.Context())
	})
}

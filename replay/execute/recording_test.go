package execute_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// recording is what passed between an executor's test and a real server. Each POST
// is there, and the answer to each GET as it was after the POST before it.
type recording struct {
	Date     string
	Versions []string
	Posts    []*exchange
	Gets     []map[string]*exchange // before the first POST, after it, after the second, ...
}

type exchange struct {
	Asked  string `json:",omitempty"` // method, path and what matters of the body
	Status int
	Body   string
}

// gist is what must be the same of a request when it is recorded and when it is
// made again: not ids, salts and tokens, which are random.
func gist(method, path string, body []byte) string {
	var q struct {
		Prompt   []int32 `json:"prompt"`
		Salt     string  `json:"cache_salt"`
		Priority int     `json:"priority"`
	}
	if json.Unmarshal(body, &q) != nil || q.Prompt == nil {
		return method + " " + path
	}
	return fmt.Sprintf("%s %s %d tokens, salted %v, priority %d", method, path, len(q.Prompt), q.Salt != "", q.Priority)
}

// record passes requests on to a real server, and writes them to file at the end
// of the test.
func record(t *testing.T, target, file, date string, versions []string) string {
	at, err := url.Parse(target)
	require.NoError(t, err)
	var mu sync.Mutex
	var posts []*exchange
	gets := []map[string]*exchange{{}}
	proxy := httputil.NewSingleHostReverseProxy(at)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		r.Body = io.NopCloser(bytes.NewReader(asked))
		e := &exchange{Asked: gist(r.Method, r.URL.RequestURI(), asked)}
		mu.Lock()
		if r.Method == http.MethodPost {
			posts, gets = append(posts, e), append(gets, map[string]*exchange{})
		} else {
			gets[len(gets)-1][r.URL.RequestURI()] = e
		}
		mu.Unlock()
		tee := &teeWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() { // also where the client has gone
			mu.Lock()
			defer mu.Unlock()
			e.Status, e.Body = tee.status, trimmed(tee.body.String())
		}()
		proxy.ServeHTTP(tee, r)
	}))
	t.Cleanup(func() {
		server.Close()
		if !t.Failed() {
			text, err := json.MarshalIndent(recording{date, versions, posts, gets}, "", " ")
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, append(text, '\n'), 0o644))
		}
	})
	return server.URL
}

type teeWriter struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (w *teeWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *teeWriter) Write(b []byte) (int, error) {
	w.body.Write(b)
	return w.ResponseWriter.Write(b)
}

// Flush lets a stream pass as it comes.
func (w *teeWriter) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

// unread is what the model generated, and where it was.
var unread = regexp.MustCompile(`"(text|root)":"(?:[^"\\]|\\.)*"`)

// trimmed leaves out what no executor reads.
func trimmed(body string) string {
	body = unread.ReplaceAllString(body, `"$1":":"`)
	if !strings.Contains(body, "\n# TYPE ") {
		return body
	}
	var kept strings.Builder
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "vllm:") && !strings.Contains(line, "_bucket{") && !strings.Contains(line, "_created{") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// replayed answers as the recording says, in its order, and fails the test where
// it is asked for anything else.
func replayed(t *testing.T, file string) (url string, rec recording) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &rec))
	mu, posted := sync.Mutex{}, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		e := &exchange{}
		if r.Method == http.MethodPost {
			if posted < len(rec.Posts) {
				e = rec.Posts[posted]
			}
			if got := gist(r.Method, r.URL.RequestURI(), asked); got != e.Asked {
				t.Errorf("request %d is %q, recorded was %q", posted, got, e.Asked)
			}
			posted++
		} else {
			for i := min(posted, len(rec.Gets)-1); i >= 0 && e.Status == 0; i-- {
				if got := rec.Gets[i][r.URL.RequestURI()]; got != nil {
					e = got
				}
			}
		}
		if e.Status == 0 {
			t.Errorf("%s %s is not in the recording", r.Method, r.URL)
			e.Status = http.StatusTeapot
		}
		w.WriteHeader(e.Status)
		fmt.Fprint(w, e.Body)
	}))
	t.Cleanup(func() {
		server.Close()
		if !t.Failed() && posted != len(rec.Posts) {
			t.Errorf("%d of %d recorded requests were made", posted, len(rec.Posts))
		}
	})
	return server.URL, rec
}

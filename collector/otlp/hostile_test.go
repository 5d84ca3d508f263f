package otlp

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// withinMemory requires that the receiver never had more memory than its budget
// twice over, for the collector of garbage lets that much lie, and some for itself.
func withinMemory(t *testing.T, c *receiver, cfg Config, beside uint64) {
	t.Helper()
	peak, most := c.peak(t), 2*uint64(cfg.MaxInFlightBytes)+32<<20+beside
	t.Logf("at most %s of Go memory in use; the bound of this test is %s", humanize.IBytes(peak), humanize.IBytes(most))
	require.Less(t, peak, most)
}

// attribute is a request with one span of kvreuse.request that has one attribute of
// that encoded AnyValue.
func attribute(key string, value []byte) []byte {
	field := func(n protowire.Number, b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(make([]byte, 0, len(b)+16), n, protowire.BytesType), b)
	}
	keyValue := append(field(1, []byte(key)), field(2, value)...)
	span := append(field(1, bytes.Repeat([]byte{1}, 16)), field(2, bytes.Repeat([]byte{2}, 8))...)
	span = append(span, field(5, []byte("kvreuse.request"))...)
	span = append(span, field(9, keyValue)...)
	return field(1, field(2, field(2, span)))
}

// nested is an AnyValue of lists (field 5) or maps (field 6) that deep in each
// other. It is written from the inside to the outside.
func nested(deep int, list bool) []byte {
	var inner []byte // written backwards
	prepend := func(n protowire.Number) {
		head := protowire.AppendTag(nil, n, protowire.BytesType)
		head = protowire.AppendVarint(head, uint64(len(inner)))
		inner = append(head, inner...)
	}
	for range deep {
		prepend(1) // the list's value, or the map's pair
		if list {
			prepend(5)
			continue
		}
		inner = inner[1:] // a pair holds its value as field 2, in field 1 of the map
		inner = append(protowire.AppendTag(nil, 2, protowire.BytesType), inner...)
		prepend(1)
		prepend(6)
	}
	return inner
}

func postTo(address, media, encoding string, body io.Reader) (int, string, error) {
	q, err := http.NewRequest(http.MethodPost, "http://"+address+pathTraces, body)
	if err != nil {
		return 0, "", err
	}
	q.Header.Set("Content-Type", media)
	q.Header.Set("Content-Encoding", encoding)
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	return a.StatusCode, string(text), err
}

// zeros is gzip of that many zeros, about 1000 to 1.
func zeros(t *testing.T, n int64) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := io.CopyN(z, zeroReader{}, n)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return out.Bytes()
}

type zeroReader struct{}

func (zeroReader) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// A small body that grows to 256 MiB is refused at the limit, many at a time, and
// costs no more than the budget.
func TestDecompressionBombs(t *testing.T) {
	cfg := local()
	c := child(t, cfg)
	bomb := zeros(t, 256<<20)
	require.Less(t, len(bomb), 300<<10)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			code, text, err := postTo(c.http, typeProtobuf, "gzip", bytes.NewReader(bomb))
			// Those for which there is no memory now are told so.
			if err != nil || code != http.StatusRequestEntityTooLarge && code != http.StatusServiceUnavailable {
				t.Errorf("%d %s %v", code, text, err)
			}
		})
	}
	all.Wait()
	code, text, err := postTo(c.http, typeProtobuf, "gzip", bytes.NewReader(bomb))
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestEntityTooLarge, code, text)
	withinMemory(t, c, cfg, 0)
}

// One attribute of 100 MB is over the limit of a request; where the limit is above
// that, it is one span that can not be true, or one that nobody knows.
func TestHugeAttribute(t *testing.T) {
	huge := attribute("kvreuse.policy", append(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.BytesType), 100e6), make([]byte, 100e6)...))
	cfg := local()
	c := child(t, cfg)
	code, text, err := postTo(c.http, typeProtobuf, "identity", bytes.NewReader(huge))
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestEntityTooLarge, code, text)
	conn, err := grpc.NewClient(c.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	_, err = export(t, conn, huge)
	require.Equal(t, codes.ResourceExhausted, status.Code(err), "%v", err)
	withinMemory(t, c, cfg, 0)

	cfg.MaxRequestBytes, cfg.MaxInFlightBytes = 128<<20, 256<<20
	c = child(t, cfg)
	code, text, err = postTo(c.http, typeProtobuf, "identity", bytes.NewReader(huge))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code, text)
	require.Contains(t, text, "1 spans refused")
	withinMemory(t, c, cfg, 0)
}

// Values 10,000 deep in each other are read in protobuf without recursion, and
// refused in JSON.
func TestDeepValues(t *testing.T) {
	const deep = 10_000
	cfg := local()
	c := child(t, cfg)
	for name, value := range map[string][]byte{"lists": nested(deep, true), "maps": nested(deep, false)} {
		for _, key := range []string{"kvreuse.policy", "kvreuse.candidate.path", "unknown"} {
			code, text, err := postTo(c.http, typeProtobuf, "identity", bytes.NewReader(attribute(key, value)))
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, code, "%s of %s: %s", name, key, text)
			require.Contains(t, text, "spans refused", "%s of %s", name, key)
		}
	}
	for _, open := range []string{`{"arrayValue":{"values":[`, `{"kvlistValue":{"values":[{"key":"k","value":`} {
		body := `{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"kvreuse.request","attributes":[{"key":"kvreuse.policy","value":` + string(bytes.Repeat([]byte(open), deep))
		code, text, err := postTo(c.http, typeJSON, "identity", bytes.NewReader([]byte(body)))
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, code)
		require.Contains(t, text, "nested")
	}
	withinMemory(t, c, cfg, 0)
}

// sendAll writes a whole request and reads only then, as Python's clients do.
func sendAll(t *testing.T, address, head string, size int64) (*http.Response, error) {
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"+head+"\r\n")
	require.NoError(t, err)
	if _, err := io.CopyN(conn, zeroReader{}, size); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	a, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err == nil {
		_, err = io.Copy(io.Discard, a.Body)
	}
	return a, err
}

// A client that sends all of a body that is too large before it reads sees why,
// and not a reset.
func TestTooLargeIsSeenBySenders(t *testing.T) {
	cfg := local()
	c := child(t, cfg)
	a, err := sendAll(t, c.http, "Content-Length: 100000000\r\n", 100e6)
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestEntityTooLarge, a.StatusCode)

	pipe, w := io.Pipe() // of unknown length: chunked
	go func() { _, err := io.CopyN(w, zeroReader{}, 40e6); w.CloseWithError(err) }()
	code, text, err := postTo(c.http, typeProtobuf, "identity", pipe)
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestEntityTooLarge, code, text)

	code, text, err = postTo(c.http, typeProtobuf, "identity", bytes.NewReader(make([]byte, 100e6)))
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestEntityTooLarge, code, text)
	withinMemory(t, c, cfg, 0)
}

// A client that asks first is told at once, and sends nothing.
func TestTooLargeIsToldBeforeItIsSent(t *testing.T) {
	r := start(t, local(), new(fake))
	a, err := sendAll(t, r.HTTPAddr(), "Content-Length: 100000000\r\nExpect: 100-continue\r\n", 0)
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestEntityTooLarge, a.StatusCode)
}

// open opens connections that send begin and then nothing, and gives how many are
// open. They end with the test.
func open(t *testing.T, address, begin string, n int) []net.Conn {
	t.Helper()
	var all []net.Conn
	t.Cleanup(func() {
		for _, c := range all {
			c.Close()
		}
	})
	for range n {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		_, _ = io.WriteString(c, begin) // it may be closed already
		all = append(all, c)
	}
	return all
}

// drip sends a byte on each connection from time to time until the test ends.
func drip(t *testing.T, all []net.Conn) {
	ctx, stop := context.WithCancel(context.Background())
	var dripping sync.WaitGroup
	dripping.Go(func() {
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				for _, c := range all {
					_, _ = c.Write([]byte("a"))
				}
			}
		}
	})
	t.Cleanup(func() { stop(); dripping.Wait() })
}

const (
	halfHead = "POST /v1/traces HTTP/1.1\r\nHost: x\r\nX-Slow: "
	halfBody = "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 10000000\r\n\r\nab"
	preface  = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
)

// crowd keeps n connections of each of five kinds open, and requires that ordinary
// senders get through meanwhile.
func crowd(t *testing.T, n, most int) {
	cfg := local()
	cfg.MaxConnections = most
	c := child(t, cfg)
	drip(t, open(t, c.http, halfHead, n))
	open(t, c.http, "", n)
	drip(t, open(t, c.http, halfBody, n))
	open(t, c.grpc, "", n)
	drip(t, open(t, c.grpc, preface, n))
	for range 5 {
		for name, e := range exportersTo(t, c.grpc, c.http) {
			require.NoError(t, exportParts(t, e, part(1)), name)
		}
	}
	withinMemory(t, c, cfg, uint64(cfg.MaxConnections)*64<<10)
}

func TestManyConnections(t *testing.T) { crowd(t, 200, 128) }

// reopen keeps n half-open requests under way: for each that ends another begins.
func reopen(t *testing.T, address, begin string, n int) {
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for ctx.Err() == nil {
				c, err := net.Dial("tcp", address)
				if err != nil {
					continue
				}
				over := context.AfterFunc(ctx, func() { c.Close() })
				_, _ = io.WriteString(c, begin)
				_, _ = io.Copy(io.Discard, c)
				over()
				c.Close()
			}
		})
	}
	t.Cleanup(func() { stop(); all.Wait() })
}

// Ordinary senders get through while 1,000 half-open requests, each begun again
// when it is refused, want all the memory for small ones.
func TestHalfOpenRequestsHoldNobodyUp(t *testing.T) {
	t.Parallel()
	cfg := local()
	cfg.MaxRequestBytes, cfg.MaxInFlightBytes, cfg.MaxConnections = 1<<20, 4<<20, 2048
	c := child(t, cfg)
	begin := "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100000\r\n\r\nab"
	reopen(t, c.http, begin, 1000)
	told := 0
	for range 20 { // where the others begin slowly there is room at first, and this one is too slow
		a, err := http.ReadResponse(bufio.NewReader(open(t, c.http, begin, 1)[0]), nil)
		require.NoError(t, err)
		if told = a.StatusCode; told != http.StatusRequestTimeout {
			break
		}
	}
	require.Equal(t, http.StatusServiceUnavailable, told, "they want more than there is")
	for range 2 {
		for name, e := range exportersTo(t, c.grpc, c.http) {
			require.NoError(t, exportParts(t, e, part(1), part(2)), name)
		}
	}
	withinMemory(t, c, cfg, uint64(cfg.MaxConnections)*64<<10)
}

// A request of which nothing comes is told to be sent again, if it lost its memory
// to another, and that it is too slow otherwise.
func TestHalfOpenRequestsAreTold(t *testing.T) {
	t.Parallel()
	cfg := local()
	cfg.MaxRequestBytes, cfg.MaxInFlightBytes = 64<<10, 64<<10 // one in the smallest room
	cfg.Wait, cfg.ReadTimeout = patience, 5*time.Second
	r := start(t, cfg, new(fake))
	begin := "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100\r\n\r\nab"
	first := open(t, r.HTTPAddr(), begin, 1)[0]
	require.Eventually(t, func() bool { return r.budget.used.Load() > 0 }, patience, time.Millisecond)
	second := open(t, r.HTTPAddr(), begin, 1)[0]
	drip(t, []net.Conn{second})
	for c, want := range map[net.Conn]int{first: http.StatusServiceUnavailable, second: http.StatusRequestTimeout} {
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		require.Equal(t, want, a.StatusCode)
		require.Equal(t, want == http.StatusServiceUnavailable, a.Header.Get("Retry-After") != "")
	}
}

// A sender that waits for Kafka for longer than a request may come for is not cut
// off: what came has come.
func TestKafkaMayTakeLongerThanReading(t *testing.T) {
	t.Parallel()
	cfg := local()
	cfg.ReadTimeout = time.Second
	p := fake{wait: make(chan struct{})}
	r := start(t, cfg, &p)
	time.AfterFunc(cfg.ReadTimeout+500*time.Millisecond, func() { close(p.wait) })
	code, text, err := postTo(r.HTTPAddr(), typeProtobuf, "identity", bytes.NewReader(attribute("a", nil)))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code, text)
}

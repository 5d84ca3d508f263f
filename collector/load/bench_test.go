package load

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// benchMessages are n messages of 400 parts each, of requests that differ.
func benchMessages(n int, make func(uint64, time.Duration) *schema.Part) (messages []kafka.Message, bytes int) {
	for i := range n {
		parts := []*schema.Part{}
		for j := range 400 {
			k := uint64(i*400 + j)
			parts = append(parts, make(k, time.Duration(k)*time.Millisecond))
		}
		messages = append(messages, kafka.Message{Offset: int64(i), Value: wire.AppendBatch(nil, parts...)})
		bytes += len(messages[i].Value)
	}
	return messages, bytes
}

// BenchmarkBytesToBlocks is load's own work on a part, from Kafka's bytes to
// the bytes that ClickHouse is sent.
func BenchmarkBytesToBlocks(b *testing.B) {
	for name, make := range map[string]func(uint64, time.Duration) *schema.Part{
		"contract": contract,
		"transfer": func(n uint64, at time.Duration) *schema.Part { return transfer(n, 0, at) },
		"plain": func(n uint64, at time.Duration) *schema.Part {
			p := contract(n, at)
			p.Decision = schema.Decision{Policy: "p", Path: schema.PathFetch, Model: "llama", Worker: "w1", Link: "l", TokensPrompt: count(4000)}
			p.Observed = schema.Observed{GPUQueue: seconds(0.1), Prefill: seconds(0.2), TTFT: seconds(0.3)}
			return p
		},
	} {
		b.Run(name, func(b *testing.B) {
			messages, bytes := benchMessages(50, make)
			m, err := newMetrics(nil)
			require.NoError(b, err)
			batch := newBatch(Default(), time.Now, m)
			rows, sent, began := 0, 0, cpu()
			b.ReportAllocs()
			for b.Loop() {
				sent = 0
				for _, msg := range messages {
					batch.message(msg)
				}
				batch.settle()
				for _, full := range batch.blocks.filled {
					body, err := full.encode()
					require.NoError(b, err)
					sent += len(body)
				}
				rows += batch.parts
				batch.reset()
			}
			used := cpu() - began
			b.ReportMetric(float64(used.Nanoseconds())/float64(rows), "cpu-ns/part")
			b.ReportMetric(float64(rows)/used.Seconds(), "parts/cpu-s")
			b.ReportMetric(float64(bytes)/float64(len(messages)*400), "B/part-in")
			b.ReportMetric(float64(sent)/float64(len(messages)*400), "B/part-out")
		})
	}
}

// cpu is the time that this process has used so far: on a shared machine the
// clock on the wall measures the neighbours.
func cpu() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

package kafka_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
)

// Eight callers a core, as an OTLP receiver has, each waiting for its message
// of 100 KB to be acknowledged.
func BenchmarkProduce(b *testing.B) {
	for name, start := range brokers {
		b.Run(name, func(b *testing.B) {
			cluster := start(b)
			topic := topic(b, cluster, 4)
			w := writer(b, cluster)
			value := make([]byte, 100_000)
			b.SetBytes(int64(len(value)))
			b.SetParallelism(8)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					require.NoError(b, w.Produce(b.Context(), topic, kafka.Message{Value: value}))
				}
			})
		})
	}
}

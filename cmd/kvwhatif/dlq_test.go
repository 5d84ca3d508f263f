package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// A person lists, shows and retries a dead letter of a broker; each command ends
// with the code that a script can tell it by.
func TestDeadLetterCommands(t *testing.T) {
	broker, err := kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(broker.Stop)
	require.NoError(t, kafka.EnsureTopics(t.Context(), broker.Cluster(), []kafka.TopicSpec{
		{Name: schema.TopicParts, Partitions: 1, Retention: time.Hour}, {Name: schema.TopicDead, Partitions: 1, Retention: time.Hour}}))
	w, err := kafka.NewWriter(kafka.WriterConfig{Cluster: broker.Cluster()})
	require.NoError(t, err)
	t.Cleanup(func() { w.Close() })
	bury := func(record []byte) string {
		l := wire.DeadLetter{Source: wire.SourceKafka, Topic: schema.TopicParts, Reason: "from\x1b[2J elsewhere", Code: "decode"}
		l.SetRecord(record)
		require.NoError(t, w.Produce(t.Context(), schema.TopicDead, kafka.Message{Value: wire.AppendDeadLetter(nil, &l)}))
		list := program(t, t.TempDir(), nil, "dlq", "list", "--kafka", broker.Addr(), "--output", "json")
		require.Zero(t, list.code, list.stderr)
		var got struct{ Letters []struct{ ID string } }
		require.NoError(t, json.Unmarshal([]byte(list.stdout), &got))
		require.Len(t, got.Letters, 1)
		return got.Letters[0].ID
	}
	dir := t.TempDir()
	good := bury(wire.AppendPart(nil, &schema.Part{Kind: schema.KindContract, Trace: schema.TraceID{1}, Span: schema.SpanID{1}, StartNanos: 1}))
	for _, c := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{args: "list", stdout: good},
		{args: "list --since 1h", stdout: "no dead letters"},
		{args: "show " + good[:6] + " --raw raw.bin", stdout: "dlq retry " + good},
		{args: "show 00000000", code: 1, stderr: "is not there"},
		{args: "retry --dry-run", stdout: "dry run, nothing was sent: 1 sent"},
		{args: "retry", code: 2, stderr: "give --yes"},
		{args: "retry " + good, stdout: "1 sent, 0 refused again"},
		{args: "list", stdout: "no dead letters"},
		{args: "list --all", stdout: "sent"},
	} {
		got := program(t, dir, nil, append([]string{"dlq"}, strings.Fields(c.args+" --kafka "+broker.Addr())...)...)
		require.Equal(t, c.code, got.code, "%s: %s%s", c.args, got.stdout, got.stderr)
		require.Contains(t, got.stdout, c.stdout, c.args)
		require.Contains(t, got.stderr, c.stderr, c.args)
		require.NotContains(t, got.stdout, "\x1b")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "raw.bin"))
	require.NoError(t, err)
	require.NotEmpty(t, raw)
	bad := bury([]byte{0x0d, 1})
	got := program(t, dir, nil, "dlq", "retry", bad, "--kafka", broker.Addr())
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.stderr, "1 dead letters were refused again")
	ids := program(t, dir, nil, "__complete", "dlq", "show", "--kafka", broker.Addr(), "")
	require.Contains(t, ids.stdout, bad+"\tdecode")
}

func TestDeadLetterUsage(t *testing.T) {
	for args, text := range map[string]string{
		"list --source spans": "give otlp or kafka", "list --limit -1": "--limit is -1", "list --partition -2": "must not be negative",
		"show": "takes one argument, ID",
	} {
		requireLine(t, program(t, t.TempDir(), nil, append([]string{"dlq"}, strings.Fields(args)...)...), exitUsage, text)
	}
	requireLine(t, program(t, t.TempDir(), nil, "dlq", "list"), exitFailed, "give --kafka HOST:PORT, or --dir")
	require.Contains(t, program(t, t.TempDir(), nil, "__complete", "dlq", "list", "--source", "").stdout, "otlp\nkafka")
}

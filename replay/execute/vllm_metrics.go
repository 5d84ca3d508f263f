package execute

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// parseMetrics reads Prometheus text: the sum of each series whose name begins so,
// over its labels.
func parseMetrics(r io.Reader, prefix string) (map[string]float64, error) {
	out := map[string]float64{}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxEvent)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if !strings.HasPrefix(line, prefix) {
			continue
		}
		name, value := splitSample(line)
		x, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: %w: %.200q", errAnswer, line)
		}
		out[name] += x
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("metrics: %w: %w", errAnswer, err)
	}
	return out, nil
}

// splitSample takes the name and the value of a sample apart; a label's value may
// hold spaces and braces.
func splitSample(line string) (name, value string) {
	name, rest, labelled := strings.Cut(line, "{")
	if labelled {
		rest = rest[strings.LastIndexByte(rest, '}')+1:]
	} else {
		name, rest, _ = strings.Cut(line, " ")
	}
	value, _, _ = strings.Cut(strings.TrimSpace(rest), " ") // a timestamp may follow
	return name, value
}

// label is the value of a label in the first sample of a name; "" without one.
func label(text []byte, metric, key string) string {
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, metric+"{")
		if !ok {
			continue
		}
		if _, value, ok := strings.Cut(","+rest, ","+key+`="`); ok {
			value, _, _ = strings.Cut(value, `"`)
			return value
		}
	}
	return ""
}

// blockTokens is how many tokens a block of the server's own cache holds.
func (v *vllm) blockTokens(ctx context.Context) (int, error) {
	text, err := v.client.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(label(text, "vllm:cache_config_info", "block_size"))
	if err != nil || n < 1 {
		return 0, fmt.Errorf("GET /metrics: %w: no block_size in vllm:cache_config_info", errAnswer)
	}
	return n, nil
}

// servedModel is the name to ask for: want, where the server has it, or its first.
func servedModel(ctx context.Context, c *servingClient, want string) (string, error) {
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := c.getJSON(ctx, "/v1/models", &list); err != nil {
		return "", err
	}
	names := []string{}
	for _, m := range list.Data {
		if m.ID == want || want == "" {
			return m.ID, nil
		}
		names = append(names, m.ID)
	}
	return "", fmt.Errorf("%w: the server has no model %q, but %q", ErrRefused, want, names)
}

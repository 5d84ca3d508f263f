package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/kvwhatif/kvwhatif/replay"
)

// addressFile is where a replayer says where it listens, in the directory of legs.
const addressFile = "address"

// rememberAddress has `kvwhatif replay stop` find this replayer by the directory;
// forget undoes it.
func (s *Settings) rememberAddress(addr string) (forget func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	path := filepath.Join(s.Dir, legsDir, addressFile)
	if err := os.WriteFile(path, []byte(addr), 0o644); err != nil {
		return nil, fmt.Errorf("remember where the replayer listens: %w", err)
	}
	return func() { _ = os.Remove(path) }, nil
}

// ReplayControl says which replayer is meant.
type ReplayControl struct {
	URL string // of its --listen; empty: the one on the settings' directory
}

// ReplayStatus is how a replayer stands, for a terminal or as JSON.
type ReplayStatus struct {
	replay.Status
	From string `json:"from"` // who said so: a URL, or a directory
}

// base is the URL of the replayer, "" where the directory has none.
func (c ReplayControl) base(s *Settings) string {
	if c.URL != "" {
		return strings.TrimRight(c.URL, "/")
	}
	raw, err := os.ReadFile(filepath.Join(s.Dir, legsDir, addressFile))
	if err != nil {
		return ""
	}
	return "http://" + strings.TrimSpace(string(raw))
}

// StopReplays sets the kill switch: by the replayer's endpoint, and by its file
// where it does not answer or has none. why is shown.
func StopReplays(ctx context.Context, s *Settings, c ReplayControl, why string) (*ReplayStatus, error) {
	return c.turn(ctx, s, http.MethodPut, "?why="+url.QueryEscape(why), func(path string) error {
		if err := os.WriteFile(path, []byte(why+"\n"), 0o644); err != nil {
			return fmt.Errorf("stop replays: %w: give --dir of the replayer, its --kill-file, or --url of its --listen", err)
		}
		return nil
	})
}

// ResumeReplays ends StopReplays.
func ResumeReplays(ctx context.Context, s *Settings, c ReplayControl) (*ReplayStatus, error) {
	return c.turn(ctx, s, http.MethodDelete, "", func(path string) error {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("resume replays: %w", err)
		}
		return nil
	})
}

func (c ReplayControl) turn(ctx context.Context, s *Settings, method, query string, byFile func(path string) error) (*ReplayStatus, error) {
	if base := c.base(s); base != "" {
		var answer struct{ Killed, Error string }
		err := callReplayer(ctx, method, base+replay.KillPath+query, &answer)
		if err == nil || c.URL != "" {
			if err != nil {
				return nil, err
			}
			return ReplayStatusOf(ctx, s, c)
		}
	}
	if err := byFile(s.killFile()); err != nil {
		return nil, err
	}
	return ReplayStatusOf(ctx, s, c)
}

// ReplayStatusOf asks the replayer, and reads its directory where it does not
// answer.
func ReplayStatusOf(ctx context.Context, s *Settings, c ReplayControl) (*ReplayStatus, error) {
	out := &ReplayStatus{From: s.Dir}
	if base := c.base(s); base != "" {
		err := callReplayer(ctx, http.MethodGet, base+replay.StatusPath, &out.Status)
		if err == nil {
			out.From = base
			return out, nil
		}
		if c.URL != "" {
			return nil, err
		}
	}
	var err error
	if out.Status, err = replay.StoredStatus(filepath.Join(s.Dir, legsDir), s.killFile()); err != nil {
		return nil, fmt.Errorf("state of replays in %s: %w", s.Dir, err)
	}
	return out, nil
}

// Text is the status for a terminal.
func (v *ReplayStatus) Text() string {
	var b strings.Builder
	s := &v.Status
	switch {
	case s.Killed != "":
		fmt.Fprintf(&b, "Stopped: %s. Go on with `kvwhatif replay resume`.\n", s.Killed)
	case !s.Running:
		fmt.Fprintf(&b, "No replayer answers (by what %s holds).\n", v.From)
	case s.Breaker != nil && s.Breaker.Phase == "open":
		b.WriteString("Held by the circuit breaker: production was slower beside replays.\n")
	default:
		fmt.Fprintf(&b, "Running, %d legs under way.\n", s.UnderWay)
	}
	if s.Plan != "" {
		fmt.Fprintf(&b, "Plan %s, %d in the history.\n", s.Plan, s.Plans)
	}
	fmt.Fprintf(&b, "Legs: %d drawn, %d with a result, %d emitted, %d wait for budget, %d for an idle engine.\n", s.Drawn, s.Executed, s.Emitted, s.Waiting, s.Gated)
	for _, why := range slices.Sorted(maps.Keys(s.Dropped)) {
		fmt.Fprintf(&b, "  %d did not run: %s\n", s.Dropped[why], why)
	}
	fmt.Fprintf(&b, "Cost: %s GPU-seconds, %.2f %% of production's; %s, %.2f %%.\n",
		short(s.GPUSeconds.Legs), 100*s.GPUSeconds.Share, size(s.Bytes.Legs), 100*s.Bytes.Share)
	b.WriteString(breakerText(s.Breaker))
	for _, n := range s.Namespaces {
		fmt.Fprintf(&b, "Replay namespace %s %s: %d sizes, %s of %s.\n", n.Tier, n.Link, len(n.Sizes), size(float64(n.Bytes)), size(float64(n.Quota)))
	}
	if len(s.BySize) > 0 {
		b.WriteString(completenessTable(s.BySize) + "\n")
	}
	return b.String()
}

func breakerText(k *replay.BreakerStatus) string {
	switch {
	case k == nil:
		return ""
	case k.Phase == "off":
		return "Circuit breaker: off.\n"
	case !k.Judges:
		return fmt.Sprintf("Circuit breaker: %s, opened %d times; too few requests to judge by now (%d beside replays).\n", k.Phase, k.Opened, k.Beside)
	}
	p99, baseline := "unknown", "unknown"
	if k.P99 != nil && k.Baseline != nil {
		p99, baseline = seconds(*k.P99), seconds(*k.Baseline)
	}
	return fmt.Sprintf("Circuit breaker: %s, opened %d times; p99 TTFT %s beside replays, %s away from them (%d requests beside).\n", k.Phase, k.Opened, p99, baseline, k.Beside)
}

func seconds(x float64) string {
	return time.Duration(x * float64(time.Second)).Round(100 * time.Microsecond).String()
}

func completenessTable(rows []replay.Completeness) string {
	t := newTable("prefix tokens", "leg", "intended", "executed", "share", "")
	for _, r := range rows {
		note := ""
		if !r.Enough {
			note = fmt.Sprintf("below %.0f %%: estimates are refused", 100*replay.Floor)
		}
		t.AppendRow(table.Row{r.Size, r.Leg, r.Intended, r.Executed, fmt.Sprintf("%.0f %%", 100*r.Share), note})
	}
	return t.Render()
}

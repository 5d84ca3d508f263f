package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kvwhatif/kvwhatif/replay"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/replay/verdict"
)

// controlPatience is how long a replayer may take to answer.
const controlPatience = 5 * time.Second

// plansKept is the history of sampling plans that a replayer kept: where the
// settings say, or in their directory; none where nothing was said and nothing is
// there.
func (s *Settings) plansKept(ctx context.Context) ([]sample.Entry, error) {
	from := s.Replay.Plans
	switch {
	case from == "":
		out, err := replay.ReadPlans(filepath.Join(s.Dir, legsDir, replay.PlansFile))
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		return out, err
	case strings.HasPrefix(from, "http://"), strings.HasPrefix(from, "https://"):
		var out []sample.Entry
		if err := callReplayer(ctx, http.MethodGet, from, &out); err != nil {
			return nil, fmt.Errorf("replay.plans: %w", err)
		}
		return out, nil
	}
	out, err := replay.ReadPlans(from)
	if err != nil {
		return nil, fmt.Errorf("replay.plans: %w", err)
	}
	return out, nil
}

// epochsOf are the plans of a history, the first since its first leg ran. What
// another salt drew is known as probabilities only.
func epochsOf(entries []sample.Entry, salt []byte, seen []planSeen) (out []verdict.Epoch, notes []string, err error) {
	h, err := sample.RestoreHistory(entries, salt)
	if err != nil {
		return nil, nil, err
	}
	for i, e := range entries {
		epoch := verdict.Epoch{Since: time.Unix(0, e.Since).UTC(), Plan: h.At(e.Since)}
		if i == 0 && e.Since == 0 {
			epoch.Since = time.Time{}
			if i := slices.IndexFunc(seen, func(p planSeen) bool { return p.ID == e.ID }); i >= 0 {
				epoch.Since = seen[i].First.UTC()
			}
		}
		if epoch.Plan == nil {
			if epoch, err = verdict.Blind(epoch.Since, e.Params, e.ID); err != nil {
				return nil, nil, err
			}
			notes = append(notes, fmt.Sprintf("plan %s drew by another salt than this one: its draws are known as probabilities only", e.ID))
		}
		if n := len(out); n > 0 && epoch.Since.Before(out[n-1].Since) {
			out[n-1].Since = epoch.Since // the first plan's first leg ran late
		}
		out = append(out, epoch)
	}
	return out, notes, nil
}

// callReplayer asks a replayer, and reads its JSON.
func callReplayer(ctx context.Context, method, url string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, controlPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return fmt.Errorf("%q is no address, give one such as http://127.0.0.1:9473: %w", url, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask the replayer: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return fmt.Errorf("ask the replayer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the replayer at %s says %s: %s", url, resp.Status, strings.TrimSpace(string(body[:min(len(body), 300)])))
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("the answer of %s is not a replayer's: %w", url, err)
	}
	return nil
}

package crash

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// progress is how far a loader is, as its metrics tell.
type progress struct {
	parts float64       // read since it started
	next  map[int]int64 // offset inserted next, by partition
}

var scraper = &http.Client{Timeout: time.Second}

// scrape asks a loader. It may be starting or gone.
func scrape(addr string) (progress, error) {
	p := progress{next: map[int]int64{}}
	answer, err := scraper.Get("http://" + addr + "/metrics")
	if err != nil {
		return p, err
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "} ")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		if partition, ok := strings.CutPrefix(name, `kvwhatif_load_position{partition="`); ok {
			n, err := strconv.Atoi(strings.TrimSuffix(partition, `"`))
			if err != nil {
				return p, fmt.Errorf("read the metrics of load: %w", err)
			}
			p.next[n] = int64(v)
		}
		if strings.HasPrefix(name, "kvwhatif_load_parts_total{") {
			p.parts += v
		}
	}
	return p, nil
}

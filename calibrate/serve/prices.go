package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kvwhatif/kvwhatif/calibrate/publish"
	"github.com/kvwhatif/kvwhatif/calibrate/read"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// What moves a price enough to publish it.
const (
	loadMoves  = 0.02          // absolute, of the load and of the share of others among coordinators
	bytesMove  = 0.2           // relative, of the mean bytes
	heardFor   = 2 * time.Hour // a coordinator that was silent for longer is not counted
	refreshBy  = 0.1           // of the time to refresh-after that is left when the document is published again
	tickJitter = 0.9           // of PriceEvery that must have passed: ticks are not exact
)

// RefreshPrices prices each link that has a fitted law by the eligible demand of
// the PriceWindow that ended PriceLag before now, and publishes a revision that
// differs only in Links, if a price moved enough or refresh-after is near. changed
// says that it did. It does nothing within PriceEvery of the last time, by now,
// which may be simulated; documents are dated by the publisher's own clock.
//
// Where nothing was decided in the window, prices stay: no demand was seen, which
// is not the same as none. In the first PriceWindow of traffic the load is
// understated, for the window was not full.
func (s *Server) RefreshPrices(ctx context.Context, now time.Time) (changed bool, err error) {
	if s.cfg.Publisher == nil || s.cfg.Demand == nil {
		return false, nil
	}
	s.pricing.Lock()
	defer s.pricing.Unlock()
	held, _ := s.now()
	if held == nil {
		return false, fmt.Errorf("refresh link prices: %w: run kvwhatif calibrate", publish.ErrNotFound)
	}
	gap := now.Sub(s.priced)
	if gap >= 0 && gap.Seconds() < tickJitter*s.cfg.PriceEvery.Seconds() {
		return false, nil
	}
	changed, err = s.refresh(ctx, held, now)
	s.metrics.failed("prices", err)
	if err != nil {
		return changed, fmt.Errorf("refresh link prices: %w", err)
	}
	s.priced = now
	return changed, nil
}

func (s *Server) refresh(ctx context.Context, held *publish.Published, now time.Time) (changed bool, err error) {
	until := now.Add(-s.cfg.PriceLag)
	demand, err := s.cfg.Demand(ctx, until.Add(-s.cfg.PriceWindow).UnixNano(), until.UnixNano())
	if err != nil {
		return false, err
	}
	old := held.Document.Links
	links := old
	if demand.Requests > 0 {
		links = s.price(&held.Document, &demand, now)
	}
	if !moved(old, links) && !refreshIsDue(&held.Document, s.cfg.Publisher.Now()) {
		return false, nil
	}
	out, err := s.cfg.Publisher.Prices(ctx, *held, links)
	if errors.Is(err, publish.ErrConflict) {
		return false, s.poll(ctx) // somebody published: price what they did, next time
	}
	if err != nil {
		return false, err
	}
	s.metrics.published.Inc()
	return true, s.take(out)
}

// refreshIsDue says whether little is left of the time to refresh-after, and a new
// document would have more. It is due of expired laws too: to try is an error, and
// they should be heard of.
func refreshIsDue(d *schema.Document, now time.Time) bool {
	left := float64(d.RefreshAfter - now.UnixNano())
	near := left < refreshBy*float64(d.RefreshAfter-d.Created) && d.RefreshAfter < d.Expires
	return near || now.UnixNano() >= d.Expires
}

// price gives the price of every link that has a law and has, or had, demand.
func (s *Server) price(d *schema.Document, demand *read.Eligible, now time.Time) []schema.LinkPrice {
	laws := transferLaws(d)
	eligible := map[string][]cost.Demand{}
	for route, list := range demand.Routes {
		law, known := laws.of(route)
		for _, x := range list {
			if known {
				x.Bytes = law.WireBytes(x.Bytes)
				eligible[route.Link] = append(eligible[route.Link], x)
			}
		}
	}
	before := map[string]schema.LinkPrice{}
	for _, l := range d.Links {
		before[l.Link] = l
		if _, ok := eligible[l.Link]; !ok {
			eligible[l.Link] = nil
		}
	}
	var out []schema.LinkPrice
	for link, list := range eligible {
		law, known := laws.main[link]
		if !known {
			continue
		}
		price := cost.PriceOf(list, law.Link.B, s.cfg.PriceWindow.Seconds())
		if len(list) == 0 {
			price.MeanBytes = before[link].Price.MeanBytes
		}
		out = append(out, schema.LinkPrice{Link: link, Price: price, Coordinators: s.coordinators(demand),
			AsOf: now.UnixNano(), Demand: int64(len(list))})
	}
	slices.SortFunc(out, func(a, b schema.LinkPrice) int { return cmp.Compare(a.Link, b.Link) })
	return out
}

// linkLaws finds the law of a route: its own, else the one of its link that was
// fitted to the most transfers, which also says what the link's capacity is.
type linkLaws struct {
	own  map[read.Route]cost.Transfer
	main map[string]cost.Transfer
}

func transferLaws(d *schema.Document) linkLaws {
	l := linkLaws{own: map[read.Route]cost.Transfer{}, main: map[string]cost.Transfer{}}
	most := map[string]int64{}
	for _, f := range d.Transfer {
		l.own[read.Route{Tier: f.Tier, Link: f.Link}] = f.Law
		if n, seen := most[f.Link]; !seen || f.Quality.N > n {
			most[f.Link], l.main[f.Link] = f.Quality.N, f.Law
		}
	}
	return l
}

func (l linkLaws) of(route read.Route) (cost.Transfer, bool) {
	if law, ok := l.own[route]; ok {
		return law, true
	}
	law, ok := l.main[route.Link]
	return law, ok
}

// coordinators is how many share the links.
func (s *Server) coordinators(demand *read.Eligible) int64 {
	if s.cfg.Coordinators > 0 {
		return s.cfg.Coordinators
	}
	return max(1, int64(len(demand.Services)), s.statuses.heardSince(s.cfg.Now().Add(-heardFor)))
}

// moved says whether prices differ by enough to change decisions.
func moved(old, links []schema.LinkPrice) bool {
	return !slices.EqualFunc(old, links, func(a, b schema.LinkPrice) bool {
		return a.Link == b.Link &&
			math.Abs(a.Price.Load-b.Price.Load) <= loadMoves &&
			math.Abs(a.Price.MeanBytes-b.Price.MeanBytes) <= bytesMove*a.Price.MeanBytes &&
			math.Abs(1/float64(a.Coordinators)-1/float64(b.Coordinators)) <= loadMoves
	})
}

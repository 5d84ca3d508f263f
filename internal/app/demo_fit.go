package app

import (
	"context"

	"github.com/kvwhatif/kvwhatif/calibrate/read"
)

// calibrate fits on what the default policy did, holding out the last share of
// each link's traffic, and publishes.
func (d *demo) calibrate(ctx context.Context) (err error) {
	d.note("calibrate", 0, 1)
	p, err := d.settings.publisher(d.backend.Conn)
	if err != nil {
		return err
	}
	var o CalibrateOptions
	for _, m := range d.mains {
		o.Stretches = append(o.Stretches, Stretch{
			From: m.window.From, Until: m.window.Until,
			Filter: read.Filter{Policies: []string{PolicyFetchAll}, Services: []string{m.traffic.service()}},
		})
	}
	d.fitted, err = d.settings.calibrate(ctx, d.backend.Conn, p, o)
	d.note("calibrate", 1, 1)
	return err
}

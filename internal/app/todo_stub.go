package app

import (
	"context"
	"errors"

	"github.com/kvwhatif/kvwhatif/dashboards/report"
)

type Calibrated struct{}
type armRun struct{}

var ErrNotPublished = errors.New("nothing published")

func (d *demo) calibrate(ctx context.Context) error { return nil }
func (d *demo) compare(ctx context.Context) error   { return nil }
func (d *demo) report(ctx context.Context) (*report.Data, string, error) {
	return nil, "", nil
}

package app

import (
	"context"

	"github.com/kvwhatif/kvwhatif/dashboards/report"
)

type armRun struct{}

func (d *demo) compare(ctx context.Context) error { return nil }
func (d *demo) report(ctx context.Context) (*report.Data, string, error) {
	return nil, "", nil
}

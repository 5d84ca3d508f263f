// Command main is the data source's backend, which Grafana starts as gpx_kvwhatif.
package main

import (
	"os"

	"github.com/grafana/grafana-plugin-sdk-go/backend/datasource"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"

	"github.com/kvwhatif/kvwhatif/dashboards/plugin"
)

func main() {
	if err := datasource.Manage(plugin.ID, plugin.New, datasource.ManageOpts{}); err != nil {
		log.DefaultLogger.Error("the data source ended", "error", err)
		os.Exit(1)
	}
}

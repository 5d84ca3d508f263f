// Package plugin is the backend of the Grafana data source: it answers the
// questions of package query from ClickHouse, as typed frames with units, and says
// what is missing where an answer is empty.
package plugin

// ID is the plugin's identifier in Grafana, as plugin.json has it.
const ID = "kvwhatif-reuse-datasource"

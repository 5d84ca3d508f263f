// Package grafana makes the dashboards. A panel is defined once: what it means,
// when to act, its SQL, its columns, its units and colours, and what it says where
// there is no data. Each is rendered for two datasources (kvwhatif's own plugin, and
// the ClickHouse plugin of Grafana Labs) and for two generations of Grafana (7.5,
// schema 27; and current). The JSON is in the directory json; a test holds it to
// what this package makes, and rewrites it when run with -update.
//
// Unknown is never green: the first step of every scale, which Grafana gives to
// values that are not there, is neutral, and a verdict that is not known is 0, grey.
package grafana

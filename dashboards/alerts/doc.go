// Package alerts defines what somebody should be called for, and renders it for
// Grafana's unified alerting (provisioning files for three datasources) and for
// Prometheus (a file of rules). An alert is defined once: what is asked, by SQL of
// the tables or PromQL of the stages' metrics or both, from what value on and for how
// long; its page in docs/runbooks says what it means and what to do.
//
// Unknown is never taken for well. A query gives NULL where a value is not known, and
// no row where nothing is; Grafana then raises DatasourceNoData with the labels of the
// rule. Prometheus has StageUnseen, for an expression without samples is silent there.
package alerts

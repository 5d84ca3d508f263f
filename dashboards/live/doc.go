// Package live gives the report as a page that stays up to date, for a browser on
// the same machine: the verdict of the last minutes or days, by link and model,
// and each request with every path that it could have taken. It is drawn by
// dashboards/report, from what dashboards/query reads.
//
// It only reads. It answers GET and HEAD alone, under the names that it was told,
// so that no other site can make a browser ask it by a name of its own (DNS
// rebinding); its Content-Security-Policy lets the page ask nobody but this server.
package live

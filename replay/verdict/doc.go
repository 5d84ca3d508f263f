// Package verdict goes from the tables of ClickHouse to verdicts and back. It
// reads the decisions of a scope and window from requests and their legs from
// replays, brings them into the form of package estimate, judges, and writes
// rows of estimates (sums by block of time and slice) and of verdicts.
//
// What a decision's predictions are: m_b of path b is the predicted TTFT of the
// candidate that sample.Alternatives names for b, which is the one that a leg of
// b runs. It is known before any draw, so it may enter the estimator.
//
// What was drawn is in no table: it is found again by drawing with the sampling
// plan, which gives the same legs for the same record. requests keeps
// predictions as Float32, so a decision that lies within 1e-7 of the bound of a
// stratum may be drawn otherwise; a leg that ran counts as drawn in any case.
//
// Blocks of time lie on a grid that starts at the Unix epoch, with lengths that
// divide each other, and windows are widened to it: a block that is estimated
// again, by this window or a later one, replaces its row and is never counted
// twice.
package verdict

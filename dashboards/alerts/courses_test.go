package alerts

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/migrate"
)

const never = -1

// outcome is what became of one row of an alert.
type outcome struct {
	fired int // minute; never
	ends  State
}

// course is rows in time, and what an alert that is asked once a minute from minute 0
// on makes of them.
type course struct {
	alert, name string
	rows        []string
	until       int // last minute asked
	want        map[string]outcome
}

func migrateUp(t *testing.T, conn *clickhouse.Conn) {
	t.Helper()
	_, err := migrate.Up(t.Context(), conn)
	require.NoError(t, err)
}

// verdicts are given every five minutes from minute first to minute last.
func verdicts(link string, first, last int, lo, hi string) string {
	return fmt.Sprintf(`INSERT INTO verdicts (at, window_from, window_until, target, link, pair_from, pair_to, estimator, verdict, lo, hi)
		SELECT @%d@ + INTERVAL 5 * number MINUTE AS at, at - INTERVAL 1 HOUR, at, 'window', '%s', 'fetch', 'recompute', 'aipw', 'unknown', %s, %s
		FROM numbers(%d)`, 60*first, link, lo, hi, (last-first)/5+1)
}

// minutes are rows of the rollup of one path and link, one a minute.
func minutes(first, last int, path, link string, columns string, values string) string {
	return fmt.Sprintf(`INSERT INTO slices (minute, path, link, gen, %s) SELECT toDateTime(@%d@) + 60 * number, '%s', '%s', 1, %s FROM numbers(%d)`,
		columns, 60*first, path, link, values, last-first+1)
}

// blocks are estimates of five minutes each.
func blocks(first, last, planned, legs int) string {
	return fmt.Sprintf(`INSERT INTO estimates (block, block_seconds, pair_from, pair_to, estimator, n, planned, legs)
		SELECT toDateTime(@%d@) + 300 * number, 300, 'fetch', 'recompute', 'aipw', 100, %d, %d FROM numbers(%d)`, 60*first, planned, legs, (last-first)/5+1)
}

// published is a document of one link that carries 1e9 bytes/s; instants in seconds
// after the base.
func published(revision int, created, refresh, expires float64, note string) string {
	nanos := func(s float64) string {
		return fmt.Sprintf("toString(toUnixTimestamp64Nano(toDateTime64(@%g@, 9, 'UTC')))", s)
	}
	payload := "concat('{\"created_unix_nanos\":', " + nanos(created) + ", ',\"refresh_after_unix_nanos\":', " + nanos(refresh) +
		", ',\"expires_unix_nanos\":', " + nanos(expires) + ", ',\"transfer\":[{\"link\":\"it\",\"law\":{\"link\":{\"b\":1e9}}}]}')"
	return fmt.Sprintf("INSERT INTO coefficients (revision, created, payload, note) SELECT %d, @%g@, %s, '%s'", revision, created, payload, note)
}

// moved are transfers of one second's end each, rate bytes a second over the minutes.
func moved(first, last int, link string, rate float64, origin string) string {
	return fmt.Sprintf(`INSERT INTO transfers (start, span, origin, operation, link, bytes)
		SELECT @%d@ + INTERVAL 10 * number + 5 SECOND, cityHash64('%s%s', number), '%s', 'load', '%s', %.0f FROM numbers(%d)`,
		60*first, link, origin, origin, link, 10*rate, (last-first)*6)
}

// said is a coordinator's word.
func said(instance string, at int, applied bool) string {
	return fmt.Sprintf("INSERT INTO coordinator_status (at, instance, revision, applied, reason) SELECT @%d@, '%s', 7, %t, 'signature'", 60*at, instance, applied)
}

func rows(statements ...string) []string { return statements }

func one(fired int, ends State) map[string]outcome { return map[string]outcome{"": {fired, ends}} }

func all() map[string]outcome { return map[string]outcome{"*": {never, noData}} }

func courses() []course {
	return append(append(benefitCourses(), trustCourses()...), calibrationCourses()...)
}

func benefitCourses() []course {
	key := "it, all policies"
	is := func(fired int, ends State) map[string]outcome { return map[string]outcome{key: {fired, ends}} }
	return []course{
		{"NetBenefitNegative", "whole interval below zero", rows(verdicts("it", 0, 30, "-0.2", "-0.001")), 20, is(15, firing)},
		{"NetBenefitNegative", "interval touches zero", rows(verdicts("it", 0, 30, "-0.2", "0")), 20, is(never, normal)},
		{"NetBenefitNegative", "below zero for ten minutes only", rows(verdicts("it", 0, 10, "-0.2", "-0.1"), verdicts("it", 15, 30, "-0.1", "0.1")), 30, is(never, normal)},
		{"NetBenefitNegative", "no interval", rows(verdicts("it", 0, 30, "NULL", "NULL")), 20, is(never, noData)},
		{"NetBenefitNegative", "old verdict", rows(verdicts("it", -31, -31, "-0.2", "-0.1")), 0, is(never, noData)},
		{"NetBenefitNegative", "one link of two", rows(verdicts("it", 0, 30, "-0.2", "-0.1"), verdicts("other", 0, 30, "0.1", "0.2")), 20,
			map[string]outcome{key: {15, firing}, "other, all policies": {never, normal}}},
		{"NetBenefitNegative", "nothing", nil, 1, all()},

		{"LinkBusy", "over 90 %", rows(published(1, -3600, 0, 82800, ""), moved(-10, 20, "it", 0.901e9, "contract")), 12, map[string]outcome{"it": {10, firing}}},
		{"LinkBusy", "under", rows(published(1, -3600, 0, 82800, ""), moved(-10, 20, "it", 0.899e9, "contract")), 12, map[string]outcome{"it": {never, normal}}},
		{"LinkBusy", "replays and the caches' own word are not counted twice", rows(published(1, -3600, 0, 82800, ""), moved(-10, 20, "it", 0.5e9, "contract"),
			moved(-10, 20, "it", 0.5e9, "replay"), moved(-10, 20, "it", 0.5e9, "transfer")), 12, map[string]outcome{"it": {never, normal}}},
		{"LinkBusy", "only caches tell", rows(published(1, -3600, 0, 82800, ""), moved(-10, 20, "it", 0.901e9, "transfer")), 10, map[string]outcome{"it": {10, firing}}},
		{"LinkBusy", "idle, while requests come", rows(published(1, -3600, 0, 82800, ""), minutes(-20, 5, "recompute", "", "n", "100")), 2, map[string]outcome{"it": {never, normal}}},
		{"LinkBusy", "no requests", rows(published(1, -3600, 0, 82800, "")), 2, map[string]outcome{"it": {never, noData}}},
		{"LinkBusy", "no fitted law", rows(moved(-10, 20, "new", 5e9, "contract")), 12, map[string]outcome{"new": {never, noData}}},
		{"LinkBusy", "nothing", nil, 1, all()},
	}
}

func trustCourses() []course {
	unknown := func(n int) string { return minutes(-20, 30, "fetch", "it", "n, unknown", fmt.Sprintf("1000, %d", n)) }
	return []course{
		{"DecisionCoverageLow", "under 80 %", rows(unknown(201)), 20, one(15, firing)},
		{"DecisionCoverageLow", "80 %", rows(unknown(200)), 20, one(never, normal)},
		{"DecisionCoverageLow", "an older making of a minute does not count", rows(unknown(200), strings.Replace(unknown(1000), "'it', 1,", "'moved', 0,", 1)), 20, one(never, normal)},
		{"DecisionCoverageLow", "no requests", nil, 20, one(never, noData)},
		{"ReplayCoverageLow", "under 80 %", rows(blocks(-120, 20, 1000, 799)), 20, one(15, firing)},
		{"ReplayCoverageLow", "80 %", rows(blocks(-120, 20, 1000, 800)), 20, one(never, normal)},
		{"ReplayCoverageLow", "too few to say", rows(blocks(-5, -5, 19, 0)), 20, one(never, noData)},
		{"NothingNew", "over ten minutes", rows(minutes(-60, -11, "fetch", "it", "n", "1")), 10, one(6, firing)},
		{"NothingNew", "goes on", rows(minutes(-60, 20, "fetch", "it", "n", "1")), 20, one(never, normal)},
		{"NothingNew", "never anything", nil, 5, one(never, noData)},
	}
}

func calibrationCourses() []course {
	lean := func(n int, share string) string {
		return minutes(-20, 30, "fetch", "it", "n, n_predicted, sum_error, sum_ttft", fmt.Sprintf("%d, %d, %s, 10", n, n, share))
	}
	key := "fetch, it"
	is := func(fired int, ends State) map[string]outcome { return map[string]outcome{key: {fired, ends}} }
	return []course{
		{"CoefficientsExpired", "expired", rows(published(1, -86400, -82800, 59, "")), 1, one(1, firing)},
		{"CoefficientsExpired", "at the last second", rows(published(1, -86400, -82800, 60, "")), 1, one(never, normal)},
		{"CoefficientsExpired", "a later revision holds", rows(published(1, -86400, -82800, -60, ""), published(2, -3600, 0, 82800, "")), 1, one(never, normal)},
		{"CoefficientsExpired", "none", nil, 1, all()},
		{"CalibrationMissed", "two runs", rows(published(1, -8100, -4500, 78300, "better")), 2, one(1, firing)},
		{"CalibrationMissed", "the champion was kept", rows(published(1, -90000, -86400, -3600, "better"), published(2, -3600, 0, 82800, "the champion was kept")), 2, one(never, normal)},
		{"CalibrationMissed", "new prices and a rollback are no calibration", rows(published(1, -8160, -4560, 78240, "better"), published(2, -60, 3540, 78240, "prices"),
			published(3, -60, 3540, 86340, "rollback to 1")), 0, one(0, firing)},
		{"CalibrationMissed", "never one", nil, 1, all()},
		{"PredictionsDrift", "slower by a fifth", rows(lean(10, "2.01")), 20, is(15, firing)},
		{"PredictionsDrift", "faster by a fifth", rows(lean(10, "-2.01")), 20, is(15, firing)},
		{"PredictionsDrift", "by less", rows(lean(10, "1.99")), 20, is(never, normal)},
		{"PredictionsDrift", "too few to say", rows(lean(6, "9")), 20, is(never, noData)},
		{"CoordinatorRefusing", "refuses", rows(said("a", -60, true), said("a", 0, false), said("b", 0, true)), 5,
			map[string]outcome{"a": {5, firing}, "b": {never, normal}}},
		{"CoordinatorRefusing", "took the next", rows(said("a", -60, false), said("a", 0, true)), 6, map[string]outcome{"a": {never, normal}}},
		{"CoordinatorRefusing", "silent", rows(said("a", -361, false)), 1, map[string]outcome{"a": {never, noData}}},
		{"CoordinatorRefusing", "nobody", nil, 1, all()},
	}
}

// Package promtest runs the Prometheus rules by Prometheus's own rules library, on
// test files as `promtool test rules` reads them. It is a module of its own, so that
// kvwhatif does not depend on Prometheus.
package promtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"go.yaml.in/yaml/v2"
)

const (
	ruleFile = "../prometheus/kvwhatif.rules.yaml"
	testFile = "../prometheus/kvwhatif.rules.test.yaml"
)

type unitTests struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []unitTest     `yaml:"tests"`
}

type unitTest struct {
	Name     string         `yaml:"name"`
	Interval model.Duration `yaml:"interval"`
	Input    []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	Alerts []expected `yaml:"alert_rule_test"`
}

type expected struct {
	At   model.Duration `yaml:"eval_time"`
	Name string         `yaml:"alertname"`
	Want []struct {
		Labels map[string]string `yaml:"exp_labels"`
	} `yaml:"exp_alerts"`
}

func load(t *testing.T) unitTests {
	t.Helper()
	raw, err := os.ReadFile(testFile)
	if err != nil {
		t.Fatal(err)
	}
	var out unitTests
	if err := yaml.UnmarshalStrict(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRules(t *testing.T) {
	all := load(t)
	for _, tc := range all.Tests {
		t.Run(tc.Name, func(t *testing.T) { tc.run(t, time.Duration(all.EvaluationInterval)) })
	}
}

func (u unitTest) script() string {
	var b strings.Builder
	fmt.Fprintf(&b, "load %v\n", u.Interval)
	for _, s := range u.Input {
		fmt.Fprintf(&b, "  %s %s\n", s.Series, s.Values)
	}
	return b.String()
}

func (u unitTest) run(t *testing.T, every time.Duration) {
	p := parser.NewParser(parser.Options{})
	suite, err := promqltest.NewLazyLoader(u.script(), promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true, Parser: p})
	if err != nil {
		t.Fatal(err)
	}
	defer suite.Close()
	suite.SubqueryInterval = every
	groups := groupsOf(t, suite, p, every)
	slices.SortFunc(u.Alerts, func(a, b expected) int { return int(a.At - b.At) })
	next := 0
	for at := time.Unix(0, 0).UTC(); next < len(u.Alerts); at = at.Add(every) {
		suite.WithSamplesTill(at, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
			evaluate(t, suite.Context(), groups, at)
		})
		for ; next < len(u.Alerts) && time.Duration(u.Alerts[next].At) < at.Add(every).Sub(time.Unix(0, 0)); next++ {
			u.Alerts[next].check(t, groups)
		}
	}
}

func groupsOf(t *testing.T, suite *promqltest.LazyLoader, p parser.Parser, every time.Duration) []*rules.Group {
	t.Helper()
	m := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage()), AppendableV2: suite.Storage(),
		Context: context.Background(), NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: promslog.NewNopLogger(), Parser: p,
	})
	byName, errs := m.LoadGroups(every, labels.EmptyLabels(), "", nil, false, ruleFile)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var out []*rules.Group
	for _, g := range byName {
		for _, r := range g.Rules() {
			r.(*rules.AlertingRule).SetRestored(true)
		}
		out = append(out, g)
	}
	return out
}

func evaluate(t *testing.T, ctx context.Context, groups []*rules.Group, at time.Time) {
	t.Helper()
	for _, g := range groups {
		g.Eval(ctx, at)
		for _, r := range g.Rules() {
			if r.LastError() != nil {
				t.Fatalf("%s at %s: %v", r.Name(), at, r.LastError())
			}
		}
	}
}

// check compares what fires; of labels only those that the test names.
func (e expected) check(t *testing.T, groups []*rules.Group) {
	t.Helper()
	var firing []labels.Labels
	for _, r := range rulesOf(groups, e.Name) {
		for _, a := range r.ActiveAlerts() {
			if a.State == rules.StateFiring {
				firing = append(firing, a.Labels)
			}
		}
	}
	if len(firing) != len(e.Want) {
		t.Errorf("%s after %v: %d fire, not %d: %v", e.Name, e.At, len(firing), len(e.Want), firing)
		return
	}
	for _, want := range e.Want {
		if !slices.ContainsFunc(firing, func(l labels.Labels) bool {
			for k, v := range want.Labels {
				if l.Get(k) != v {
					return false
				}
			}
			return true
		}) {
			t.Errorf("%s after %v: none with %v among %v", e.Name, e.At, want.Labels, firing)
		}
	}
}

func rulesOf(groups []*rules.Group, name string) (out []*rules.AlertingRule) {
	for _, g := range groups {
		for _, r := range g.Rules() {
			if r.Name() == name {
				out = append(out, r.(*rules.AlertingRule))
			}
		}
	}
	return out
}

// Each rule is shown to fire, and not to fire where it is near.
func TestEachRuleFiresAndDoesNot(t *testing.T) {
	raw, err := os.ReadFile(ruleFile)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert string `yaml:"alert"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, u := range load(t).Tests {
		for _, a := range u.Alerts {
			fires[a.Name] = fires[a.Name] || len(a.Want) > 0
			quiet[a.Name] = quiet[a.Name] || len(a.Want) == 0
		}
	}
	n := 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			n++
			if !fires[r.Alert] || !quiet[r.Alert] {
				t.Errorf("%s: %s has no test that it fires, or none that it does not", filepath.Base(testFile), r.Alert)
			}
		}
	}
	if n == 0 {
		t.Fatal("no rules")
	}
}

package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func render(t *testing.T, d Data) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Render(&b, d))
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	if string(want) != got {
		t.Fatalf("%s differs: run with -update and read the diff", path)
	}
}

func TestGolden(t *testing.T) {
	golden(t, "sample.html", render(t, sample()))
	golden(t, "empty.html", render(t, Data{}))
	golden(t, "sample.txt", Text(sample()))
	golden(t, "empty.txt", Text(Data{}))
	b, err := json.MarshalIndent(sample(), "", " ")
	require.NoError(t, err)
	golden(t, "sample.json", string(b))
}

// pages are the data that every check of a page runs on.
func pages() map[string]Data {
	return map[string]Data{"sample": sample(), "empty": {}, "unknown": unknowns(), "huge": huge(), "hostile": hostile(), "many": many(), "fleet": fleet(), "long": long()}
}

// many has more side questions than a page shows at once.
func many() Data {
	d := sample()
	for range 7 {
		d.Verdicts = append(d.Verdicts, Verdict{Link: "side", Path: "route", Alternative: "fetch", Own: ci(-0.1, -0.3, 0.1, 40), Requests: 5})
	}
	return d
}

// fleet is a hundred links.
func fleet() Data {
	d := sample()
	d.Verdicts, d.Arms = nil, nil
	for i := range 100 {
		v := sampleVerdicts()[i%2]
		v.Link = fmt.Sprintf("rack%02d-spine%d", i, i%4)
		if i%5 == 4 {
			v.State, v.Reason = Unknown, "4 legs, 20 needed: wait, or raise the rate"
		}
		d.Verdicts = append(d.Verdicts, v)
		d.Benefits = append(d.Benefits, Benefit{By: "link", Name: v.Link, Requests: 9, Unmeasured: Num(1), Reason: "nothing was estimated here"})
		d.Stages = append(d.Stages, Stages{Path: "fetch", Link: v.Link, Requests: 9, Prefill: 1, TTFT: 1})
	}
	return d
}

// long has names and reasons of a length that nobody planned for, without a place
// to break them.
func long() Data {
	d, name := sample(), strings.Repeat("eu-central-1-", 20)
	for i := range d.Verdicts {
		d.Verdicts[i].Link, d.Verdicts[i].Reason, d.Verdicts[i].Model = name, name, name
	}
	for i := range d.Benefits {
		d.Benefits[i].Name, d.Benefits[i].Reason = name, name
	}
	for i := range d.Arms {
		d.Arms[i].Policy, d.Arms[i].Note, d.Arms[i].Link = name, name, name
	}
	for i := range d.Truths {
		d.Truths[i].Link, d.Truths[i].Methods[0].Reason = name, name
	}
	d.Stages[0].Link, d.Worst[0].Link, d.Worst[1].Link, d.Coverage.Support[0].Of = name, name, name, name
	d.Calibration.Terms[0].Of, d.Calibration.Challenges[0].Slice, d.Calibration.Challenges[3].Slice = name, name, name
	return d
}

// unknowns is a window of which nothing is known but that it is there.
func unknowns() Data {
	nan := math.NaN()
	bad := &Interval{Value: nan, Low: nan, High: nan, Level: 0.95}
	return Data{
		Verdicts:    []Verdict{{State: Helping, Path: "fetch", Alternative: "recompute"}, {State: Helping, Own: bad}, {State: Hurting, Own: prediction(-1)}, {State: "nonsense", Own: ci(1, 0.5, 2, 9)}},
		Benefits:    []Benefit{{By: "link", Name: "busy", Predicted: bad, Measured: bad}},
		Truths:      []Truth{{Methods: []Method{{Name: "AIPW"}, {Name: "IPW", Estimate: bad}}}},
		Arms:        []Arm{{AA: true, Gain: bad}, {Policy: "priced"}},
		Worst:       []Decision{{Trace: "a"}},
		Calibration: Calibration{Terms: []Term{{Law: "prefill", Error: Num(nan)}}},
		Coverage:    Coverage{Legs: []Legs{{Size: "≤512", Leg: "control"}}, Support: []Support{{Of: "x"}}},
	}
}

// huge holds numbers that no fleet has.
func huge() Data {
	d := sample()
	d.Verdicts[0].Own = ci(-4.1e12, -9e12, -1e12, math.MaxInt64)
	d.Verdicts[0].Requests = math.MaxInt64
	d.Benefits[0].Measured = ci(1e300, -1e300, 1e305, 1)
	d.Stages[0].ExposedStall, d.Stages[0].TTFT = 1e15, 1e15
	d.Stages[1].Remainder = -1e3
	d.Worst[0].Taken.TTFT = Num(1e18)
	d.Calibration.Terms[0].MaxBytes = Num(1e300)
	d.Calibration.Terms[0].Residuals[4] = Num(1e200)
	d.Coverage.Requests = math.MaxInt64
	d.Coverage.Legs[0].Executed = math.MaxInt64
	d.Measured.Wall = 1e9
	return d
}

const script = `<script>alert(1)</script>"'><img src=x onerror=alert(1)>`

// hostile has a script in every name that comes from outside.
func hostile() Data {
	d := sample()
	d.Title, d.Measured.Command, d.Measured.Machine, d.Measured.Version = script, script, script, script
	d.Measured.Notes = []string{script, "javascript:alert(1)"}
	for i := range d.Verdicts {
		d.Verdicts[i].Link, d.Verdicts[i].Reason, d.Verdicts[i].Action, d.Verdicts[i].Path, d.Verdicts[i].Policy = script, script, script, script, script
	}
	for i := range d.Benefits {
		d.Benefits[i].Name, d.Benefits[i].Reason = script, script
	}
	d.Stages[0].Path, d.Stages[0].Link = script, script
	d.Truths[0].Link, d.Truths[0].Methods[0].Name, d.Truths[1].Methods[0].Reason = script, script, script
	d.Calibration.Reasons, d.Calibration.Terms[0].Of, d.Calibration.Terms[0].Form, d.Calibration.Outcome = []string{script}, script, script, script
	d.Calibration.Terms[0].Values[0] = Value{Name: script, Unit: script, Value: Num(1)}
	d.Arms[2].Policy, d.Arms[2].Reason, d.Worst[0].Trace, d.Worst[0].Link = script, script, script, script
	d.Coverage.DeadLetters[0].Reason, d.Coverage.Refusals[0].Reason, d.Coverage.Support[0].Of, d.Coverage.Legs[0].Size = script, script, script, script
	return d
}

func TestPagesAreWellFormedAndAskNobody(t *testing.T) {
	for name, d := range pages() {
		t.Run(name, func(t *testing.T) {
			text := render(t, d)
			require.NotContains(t, text, "ZgotmplZ", "the template refused a value")
			require.NotContains(t, text, "NaN")
			require.NotContains(t, text, "Inf")
			nodes := parse(t, text)
			for _, n := range nodes {
				checkNode(t, n)
			}
			checkIDs(t, nodes)
		})
	}
}

func parse(t *testing.T, text string) (all []*html.Node) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	require.NoError(t, err)
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			all = append(all, n)
		}
	}
	return all
}

func attr(n *html.Node, key string) (string, bool) {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val, true
		}
	}
	return "", false
}

// checkNode allows no script, no handler and no address but one inside the page.
func checkNode(t *testing.T, n *html.Node) {
	require.NotContains(t, []string{"script", "img", "iframe", "object", "embed", "form", "base"}, n.Data)
	for _, a := range n.Attr {
		require.False(t, strings.HasPrefix(a.Key, "on"), "a handler: %s", a.Key)
		switch a.Key {
		case "href", "src", "action", "data", "poster", "srcset":
			require.True(t, strings.HasPrefix(a.Val, "#") || a.Val == "data:,", "an address: %s", a.Val)
		}
	}
	if n.Data == "style" {
		require.NotContains(t, n.FirstChild.Data, "http")
		require.NotContains(t, n.FirstChild.Data, "@import")
		require.Equal(t, strings.Count(n.FirstChild.Data, "url("), strings.Count(n.FirstChild.Data, "url(#"))
	}
	if n.Data == "table" {
		require.NotNil(t, n.FirstChild)
		require.Equal(t, "caption", n.FirstChild.Data, "a table without a caption")
	}
	if role, _ := attr(n, "role"); n.Data == "svg" && role == "img" {
		require.Equal(t, "title", n.FirstChild.Data, "a plot without a title")
	}
}

// checkIDs holds that every reference inside the page has its one target.
func checkIDs(t *testing.T, nodes []*html.Node) {
	seen := map[string]int{}
	for _, n := range nodes {
		if id, ok := attr(n, "id"); ok {
			seen[id]++
		}
	}
	for id, n := range seen {
		require.Equal(t, 1, n, "id %s", id)
	}
	for _, n := range nodes {
		if ref, ok := attr(n, "href"); ok && len(ref) > 1 && ref[0] == '#' {
			require.Contains(t, seen, ref[1:])
		}
		if ref, ok := attr(n, "aria-labelledby"); ok {
			require.Contains(t, seen, ref)
		}
	}
}

func TestUnknownIsNeverShownAsGood(t *testing.T) {
	text := render(t, unknowns())
	require.Equal(t, 1, strings.Count(text, `class="card unknown"`))
	require.Equal(t, 4, strings.Count(text, `class="badge unknown"`))
	require.NotContains(t, text, `class="card helping"`)
	require.NotContains(t, text, `class="badge helping"`)
	require.NotContains(t, text, `>inside<`)
	require.NotContains(t, strings.ToLower(Text(unknowns())), "helping")
}

func TestEmptySaysWhy(t *testing.T) {
	text := render(t, Data{})
	for _, why := range []string{"No verdict: nothing was estimated", "No number: the window holds no requests", "No number: no request", "No truth:", "No calibration ran", "No coefficients", "No number: one policy", "No decision to show", "No replay leg"} {
		require.Contains(t, text, why)
	}
}

func TestMarshalHasNoSurprises(t *testing.T) {
	for name, d := range pages() {
		b, err := json.Marshal(d)
		require.NoError(t, err, name)
		require.NotContains(t, string(b), "NaN")
		var any map[string]any
		require.NoError(t, json.Unmarshal(b, &any), name)
	}
}

type broken struct{}

var errBroken = errors.New("disk full")

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestRenderSaysWhereItFailed(t *testing.T) {
	require.ErrorIs(t, Render(broken{}, sample()), errBroken)
}

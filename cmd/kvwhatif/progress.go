package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how far each stage is: a bar on a terminal, a line a stage
// elsewhere.
type progress struct {
	w     io.Writer
	bars  bool
	stage string
	bar   *progressbar.ProgressBar
	began time.Time
}

func newProgress(f *os.File) *progress {
	return &progress{w: f, bars: term.IsTerminal(int(f.Fd())), began: time.Now()}
}

// tell is an app.Progress.
func (p *progress) tell(stage string, done, total int) {
	if stage != p.stage {
		p.end()
		p.stage = stage
		if p.bars {
			p.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription(stage),
				progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
		} else {
			fmt.Fprintf(p.w, "%6.1f s  %s\n", time.Since(p.began).Seconds(), stage)
		}
	}
	if p.bar != nil {
		p.bar.ChangeMax(total)
		_ = p.bar.Set(done)
	}
}

// end ends the line of the stage under way.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
		p.bar = nil
	}
	p.stage = ""
}

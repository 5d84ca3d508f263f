package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/retry"
	"github.com/kvwhatif/kvwhatif/replay"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

const (
	// legTimeout is how long an executor may take for one leg before it counts as
	// not available.
	legTimeout = 5 * time.Minute
	// statsEvery is how often the replayer logs what it has done.
	statsEvery = 30 * time.Second
	// killFile is the kill switch in the directory, where the settings name none.
	killFile = "kvwhatif.kill"
	// legsDir is where legs that were drawn and not yet run are kept.
	legsDir = "legs"
)

var errNoSalt = errors.New("no replay salt: set KVWHATIF_REPLAY_SALT or replay.salt to 32 hex digits or more (make one with `openssl rand -hex 32`), the same for replay and verdict")

// Replay runs the replayer until ctx ends: it draws from the decisions in Kafka,
// has the executor run the legs, and sends the results to a collector.
func Replay(ctx context.Context, s *Settings, log *slog.Logger, announce Announce) (err error) {
	if s, err = s.attached(); err != nil {
		return err
	}
	plan, executor, err := s.Replay.parts()
	if err != nil {
		return err
	}
	if err := probeExecutor(ctx, executor, log); err != nil {
		return err
	}
	b, err := OpenOutside(ctx, s, true, false)
	if err != nil {
		return err
	}
	store, err := s.openLegs(time.Now())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	emitter, err := newLegEmitter(ctx, s.Sender, s.Replay.OTLP, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, emitter.Close(context.WithoutCancel(ctx))) }()
	runner, err := replay.New(s.runnerConfig(plan, emitter.Emit, log), store)
	if err != nil {
		return err
	}
	source, err := replay.NewKafkaSource(b.Cluster, schema.TopicParts, log)
	if err != nil {
		return err
	}
	p := newProcess(ctx, "replay", log)
	at := Endpoints{Kafka: b.Cluster.String(), Executor: s.Replay.Executor, Plan: plan.ID()}
	if at.Metrics, err = p.startReplay(runner, source, executor, s); err != nil {
		return errors.Join(p.fail(err), source.Close())
	}
	forget, err := s.rememberAddress(at.Metrics)
	if err != nil {
		return p.fail(err)
	}
	defer forget()
	logPlan(log, plan, s.Replay)
	announce(at)
	return p.wait()
}

// parts are the sampling plan and the executor that the settings name.
func (s ReplaySettings) parts() (*sample.Plan, execute.Executor, error) {
	executor, err := s.executor()
	if err != nil {
		return nil, nil, err
	}
	salt, err := s.salt()
	if err == nil && salt == nil {
		err = errNoSalt
	}
	if err != nil {
		return nil, nil, err
	}
	plan, err := s.plan(salt)
	if err != nil {
		return nil, nil, err
	}
	return plan, executor, nil
}

// openLegs opens the store of the directory. What was done with is forgotten once no
// decision that old would be drawn again: after two deadlines, and never without one.
func (s *Settings) openLegs(now time.Time) (*replay.Store, error) {
	forget := int64(0)
	if s.Replay.Deadline > 0 {
		forget = now.Add(-2 * time.Duration(s.Replay.Deadline)).UnixNano()
	}
	return replay.OpenStore(filepath.Join(s.Dir, legsDir), forget)
}

func (s *Settings) runnerConfig(plan *sample.Plan, emit replay.Emit, log *slog.Logger) replay.Config {
	return replay.Config{
		Plan: plan, Limits: s.Replay.limits(), Emit: emit, Concurrency: s.Replay.Parallel, KillFile: s.killFile(), Logger: log,
		Idle: s.Replay.gate(), Breaker: s.Replay.Breaker.config(), Adapt: time.Duration(s.Replay.Adapt),
		Stock: replay.Stocking{Model: s.Replay.Stock.Model, Sizes: s.Replay.Stock.Sizes},
	}
}

// startReplay starts the runner with its metrics and kill switches. The source is
// closed when the runner has ended.
func (p *process) startReplay(r *replay.Runner, source *replay.KafkaSource, ex execute.Executor, s *Settings) (metrics string, err error) {
	if err := p.registry.Register(replayMetrics{r}); err != nil {
		return "", fmt.Errorf("metrics of replay: %w", err)
	}
	if err := p.registry.Register(source.Collector()); err != nil {
		return "", fmt.Errorf("metrics of the Kafka reader: %w", err)
	}
	if metrics, err = p.listen(s.Listen, mount{replay.Path, r.Handler()}); err != nil {
		return "", err
	}
	p.group.Go(func() error {
		err := r.Run(p.ctx, source, ex)
		return errors.Join(err, source.Close())
	})
	p.group.Go(func() error { p.toggleKill(r); return nil })
	p.group.Go(func() error { p.logStats(r); return nil })
	return metrics, nil
}

// toggleKill stops replays at a SIGUSR1, and lets them go on at the next.
func (p *process) toggleKill(r *replay.Runner) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	defer signal.Stop(signals)
	for {
		select {
		case <-signals:
			err := error(nil)
			if r.Killed() != "" {
				err = r.Resume()
			} else {
				err = r.Kill("SIGUSR1")
			}
			p.log.Warn("replay: kill switch by signal", "killed", r.Killed(), "error", err)
		case <-p.ctx.Done():
			return
		}
	}
}

func (p *process) logStats(r *replay.Runner) {
	for {
		retry.Pause(p.ctx, statsEvery)
		if p.ctx.Err() != nil {
			return
		}
		st := r.Stats()
		p.log.Info("replay", "decisions", st.Decisions, "drawn", st.Drawn, "executed", st.Executed, "emitted", st.Emitted,
			"dropped", st.Dropped, "waiting", st.Waiting, "killed", st.Killed,
			"gpu_share", shareOf(st.Legs.GPUSeconds, st.Production.GPUSeconds), "byte_share", shareOf(st.Legs.Bytes, st.Production.Bytes))
	}
}

// logPlan says what will be drawn and what it may cost.
func logPlan(log *slog.Logger, plan *sample.Plan, s ReplaySettings) {
	params := plan.Params()
	deadline := "none"
	if s.Deadline > 0 {
		deadline = s.Deadline.String()
	}
	log.Info("replay plan", "plan", plan.ID(), "rate", params.Rate, "control", params.Control, "min_rate", params.MinRate,
		"control_rates", params.ControlRates, "share_of_cost", s.Share, "deadline", deadline, "parallel", s.Parallel)
}

// shareOf is part of whole; 0 of nothing.
func shareOf(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}

package replay

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
)

// Kill stops legs from starting until Resume; why is shown. Decisions are still
// drawn, so that what did not run is counted.
func (r *Runner) Kill(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if why == "" {
		why = "killed"
	}
	r.killed = why
}

// Resume ends Kill; a kill file still holds.
func (r *Runner) Resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed = ""
}

// Killed says why nothing runs; "" while it does.
func (r *Runner) Killed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.killedNow()
}

func (r *Runner) killedNow() string {
	if r.killed != "" || r.cfg.KillFile == "" {
		return r.killed
	}
	if _, err := os.Stat(r.cfg.KillFile); !errors.Is(err, os.ErrNotExist) {
		return "the file " + r.cfg.KillFile + " exists" // or can not be looked at: then rather not
	}
	return ""
}

// KillPath is where KillHandler serves.
const KillPath = "/v1/replay/kill"

// KillHandler is the kill switch over HTTP at KillPath: GET tells, PUT stops
// (?why=...), DELETE resumes. The answer is {"killed": why}.
func (r *Runner) KillHandler() http.Handler {
	mux := http.NewServeMux()
	say := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"killed": r.Killed()})
	}
	mux.HandleFunc("GET "+KillPath, func(w http.ResponseWriter, _ *http.Request) { say(w) })
	mux.HandleFunc("PUT "+KillPath, func(w http.ResponseWriter, q *http.Request) {
		r.Kill(q.URL.Query().Get("why"))
		say(w)
	})
	mux.HandleFunc("DELETE "+KillPath, func(w http.ResponseWriter, _ *http.Request) {
		r.Resume()
		say(w)
	})
	return mux
}

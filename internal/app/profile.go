package app

import (
	"net/http"
	"net/http/pprof"
)

// profile gives out Go's profiles of this process where the settings say so, and
// nothing but those: they show what is in memory, so it is an address of its own.
func (p *process) profile(addr string) error {
	if addr == "" {
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	at, err := p.serve(addr, mux)
	if err != nil {
		return err
	}
	p.log.Warn("profiles of this process are given out to whoever asks", "url", "http://"+at+"/debug/pprof/")
	return nil
}

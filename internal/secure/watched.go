package secure

import (
	"io/fs"
	"os"
	"sync"
	"time"
)

// lookEvery is how often files are looked at, at most: by who needs them, for
// nothing runs beside.
const lookEvery = time.Second

// watched is a value made of files, made again when one of them has changed. Where
// that fails the last good one stays.
type watched[T any] struct {
	files []string // empty names are left out
	make  func() (T, error)
	onErr func(error) // nil drops
	now   func() time.Time

	mu     sync.Mutex
	value  T
	looked time.Time
	state  []stamp
}

// stamp is what changes with a file. A Kubernetes secret is a link that is
// changed, so it is that of what the link leads to.
type stamp struct {
	mod  time.Time
	size int64
	info fs.FileInfo // for SameFile
}

// watch makes the value for the first time.
func watch[T any](files []string, onErr func(error), build func() (T, error)) (*watched[T], error) {
	w := &watched[T]{files: files, make: build, onErr: onErr, now: time.Now}
	w.state = w.stamps()
	w.looked = w.now()
	var err error
	w.value, err = build()
	return w, err
}

// get is the value of the files as they are, at most lookEvery ago.
func (w *watched[T]) get() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if now.Sub(w.looked) < lookEvery {
		return w.value
	}
	w.looked = now
	state := w.stamps()
	if same(state, w.state) {
		return w.value
	}
	value, err := w.make()
	if err != nil {
		if w.onErr != nil {
			w.onErr(err)
		}
		return w.value // and looks again: a file may be half written
	}
	w.value, w.state = value, state
	return w.value
}

func (w *watched[T]) stamps() []stamp {
	out := make([]stamp, len(w.files))
	for i, name := range w.files {
		if info, err := os.Stat(name); name != "" && err == nil {
			out[i] = stamp{info.ModTime(), info.Size(), info}
		}
	}
	return out
}

func same(a, b []stamp) bool {
	for i := range a {
		if !a[i].mod.Equal(b[i].mod) || a[i].size != b[i].size || !os.SameFile(a[i].info, b[i].info) && (a[i].info != nil || b[i].info != nil) {
			return false
		}
	}
	return true
}

package live

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
)

// tier is the files of saved prefixes that production fetches from.
type tier struct {
	dir   string
	files map[string]saved // by name
}

type saved struct {
	blocks []int64
	bytes  int64
}

// newTier begins with an empty tier.
func newTier(dir string) (*tier, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("tier: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("tier: %w", err)
	}
	return &tier{dir: dir, files: map[string]saved{}}, nil
}

func nameOf(blocks []int64) string {
	h := fnv.New128a()
	for _, b := range blocks {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(b)))
	}
	return fmt.Sprintf("%d-%s.kv", len(blocks), hex.EncodeToString(h.Sum(nil)))
}

func (t *tier) path(name string) string { return filepath.Join(t.dir, name) }

// longest finds the file with the most blocks that begin the given ones. A file is
// restored as a whole, so one that goes on otherwise is no use.
func (t *tier) longest(blocks []int64) (name string, found saved) {
	for n := len(blocks); n > 0; n-- {
		name := nameOf(blocks[:n])
		if f, ok := t.files[name]; ok {
			return name, f
		}
	}
	return "", saved{}
}

// add takes a file in, in place of those that hold only its beginning.
func (t *tier) add(name string, f saved) error {
	t.files[name] = f
	for n := 1; n < len(f.blocks); n++ {
		shorter := nameOf(f.blocks[:n])
		if _, ok := t.files[shorter]; ok {
			delete(t.files, shorter)
			if err := os.Remove(t.path(shorter)); err != nil {
				return fmt.Errorf("tier: %w", err)
			}
		}
	}
	return nil
}

// common is how many blocks two prompts begin with.
func common(a, b []int64) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

package execute

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// llamaStore is the replay namespace of a tier: files of saved slots, by what they
// hold, within a quota. Production reads none of them, and legs nothing else.
type llamaStore struct {
	dir   string
	quota int64

	mu    sync.Mutex
	files map[string]*llamaFile // by key
	bytes int64
}

type llamaFile struct {
	bytes int64
	used  time.Time
	pins  int // legs that read it
}

const llamaSuffix = ".kv"

// openLlamaStore takes over what an earlier process left in dir.
func openLlamaStore(dir string, quota int64) (*llamaStore, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("replay namespace: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("replay namespace: %w", err)
	}
	s := &llamaStore{dir: dir, quota: quota, files: map[string]*llamaFile{}}
	for _, e := range entries {
		info, err := e.Info()
		key, isOurs := trimmed(e.Name())
		if err != nil || !isOurs {
			continue
		}
		s.files[key] = &llamaFile{bytes: info.Size(), used: info.ModTime()}
		s.bytes += info.Size()
	}
	return s, s.evict("")
}

func trimmed(name string) (key string, ok bool) {
	key = name[:max(0, len(name)-len(llamaSuffix))]
	return key, key != "" && key+llamaSuffix == name
}

func (s *llamaStore) path(key string) string { return filepath.Join(s.dir, key+llamaSuffix) }

// pin keeps a file from being evicted until unpin. It is false where the file is
// not there.
func (s *llamaStore) pin(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[key]
	if f == nil {
		return false
	}
	f.pins++
	f.used = time.Now()
	return true
}

func (s *llamaStore) unpin(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[key]; f != nil && f.pins > 0 {
		f.pins--
	}
}

// put moves a file in. It does not go over the link: the namespace is filled on
// its own side.
func (s *llamaStore) put(key, from string) error {
	info, err := os.Stat(from)
	if err != nil {
		return fmt.Errorf("replay namespace: %w", err)
	}
	if info.Size() > s.quota {
		return fmt.Errorf("replay namespace: %w: a prefix of %d bytes is over the quota of %d", ErrRefused, info.Size(), s.quota)
	}
	if err := move(from, s.path(key)); err != nil {
		return fmt.Errorf("replay namespace: %w", err)
	}
	s.mu.Lock()
	f := s.files[key]
	if f == nil {
		f = &llamaFile{}
		s.files[key] = f
	}
	s.bytes += info.Size() - f.bytes
	f.bytes, f.used = info.Size(), time.Now()
	s.mu.Unlock()
	return s.evict(key)
}

// evict removes the least recently used files that nobody reads until the rest
// is within the quota; keep stays.
func (s *llamaStore) evict(keep string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for key, f := range s.files {
		if f.pins == 0 && key != keep {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int { return s.files[a].used.Compare(s.files[b].used) })
	for _, key := range keys {
		if s.bytes <= s.quota {
			break
		}
		if err := s.remove(key); err != nil {
			return err
		}
	}
	return nil
}

// drop removes a file that turned out to be no good.
func (s *llamaStore) drop(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remove(key)
}

func (s *llamaStore) remove(key string) error {
	if f := s.files[key]; f != nil {
		s.bytes -= f.bytes
		delete(s.files, key)
	}
	if err := os.Remove(s.path(key)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("replay namespace: %w", err)
	}
	return nil
}

// move renames, or copies where the two are on different file systems.
func move(from, to string) error {
	if os.Rename(from, to) == nil {
		return nil
	}
	if err := duplicate(from, to+".part"); err != nil {
		return err
	}
	return errors.Join(os.Rename(to+".part", to), os.Remove(from))
}

func duplicate(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

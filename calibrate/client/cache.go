package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/coefficients"
)

// loadCache takes up the last good document. One that has expired since is taken
// up too: its state says so, and its revision stays the floor.
func (c *Client) loadCache() error {
	if c.cfg.CacheFile == "" {
		return nil
	}
	text, err := os.ReadFile(c.cfg.CacheFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the coefficient cache: %w", err)
	}
	var signed schema.SignedDocument
	if err := json.Unmarshal(text, &signed); err != nil {
		return fmt.Errorf("read the coefficient cache %s: %w: remove it, it will be written again", c.cfg.CacheFile, err)
	}
	d, err := coefficients.Open(signed, c.cfg.PublicKeys...)
	if err != nil {
		return fmt.Errorf("the coefficient cache %s is refused: %w", c.cfg.CacheFile, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = held{document: &d, digest: coefficients.Digest(signed.Payload)}
	c.recompileLocked()
	return nil
}

// saveCache replaces the file whole, so that a crash leaves the old one or the new.
func (c *Client) saveCache(s schema.SignedDocument) error {
	if c.cfg.CacheFile == "" {
		return nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("write the coefficient cache: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(c.cfg.CacheFile), ".coefficients-*")
	if err != nil {
		return fmt.Errorf("write the coefficient cache: %w", err)
	}
	defer os.Remove(tmp.Name()) // fails, as it should, after the rename
	_, err = tmp.Write(text)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("write the coefficient cache: %w", err)
	}
	if err := os.Rename(tmp.Name(), c.cfg.CacheFile); err != nil {
		return fmt.Errorf("write the coefficient cache: %w", err)
	}
	return nil
}

// Close stops the alarm of state changes. Decide goes on with what is held; call
// it after the context of Start is done.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvwhatif/kvwhatif/internal/app"
	"github.com/kvwhatif/kvwhatif/internal/config/units"
)

func (c *cli) report() *cobra.Command {
	span := &spanFlags{since: units.Duration(24 * time.Hour)}
	var out string
	cmd := &cobra.Command{
		Use: "report", Short: "Writes what a range of requests says as one HTML file", Args: noArgs,
		Long: `Reads requests, verdicts and coefficients of a range from ClickHouse, and writes
one HTML file that needs no server and no network. With --output json it prints
the same as JSON, and writes no file.`,
		Example: "  kvwhatif report --since 1d --out report.html",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.runReport(cmd, span, out) },
	}
	backendFlags(cmd, "clickhouse", "dir")
	span.add(cmd)
	cmd.Flags().StringVar(&out, "out", "report.html", "file to write; - for standard output")
	return cmd
}

func (c *cli) runReport(cmd *cobra.Command, f *spanFlags, out string) error {
	span, err := f.span()
	if err != nil {
		return err
	}
	s, _, err := c.prepare(cmd)
	if err != nil {
		return err
	}
	answer, err := app.Report(cmd.Context(), s, span, "kvwhatif report")
	if err != nil {
		return err
	}
	if c.output == "json" {
		return c.show(cmd, answer)
	}
	if out == "-" {
		return answer.Render(cmd.OutOrStdout())
	}
	var page bytes.Buffer
	if err := answer.Render(&page); err != nil {
		return err
	}
	if err := os.WriteFile(out, page.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the report: %w: choose another file with --out", err)
	}
	if abs, err := filepath.Abs(out); err == nil {
		out = abs
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "report: %s\n", out)
	return err
}

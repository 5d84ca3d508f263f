package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvwhatif/kvwhatif/internal/app"
	"github.com/kvwhatif/kvwhatif/internal/config/units"
)

func (c *cli) dlq() *cobra.Command {
	cmd := group("dlq", "Looks at what was refused, and retries it", c.dlqList(), c.dlqShow(), c.dlqRetry())
	cmd.Long = `Looks at the dead letters: spans that were refused at the door, and parts that
load could not read. Each keeps its reason and up to 64 KiB of the record. Without
--kafka they are those of a "kvwhatif up" that runs on --dir.`
	return cmd
}

// letterFlags are the filters of dead letters.
func letterFlags(cmd *cobra.Command) func(ids []string) (app.LetterFilter, error) {
	var f app.LetterFilter
	var since units.Duration
	backendFlags(cmd, "kafka", "dir")
	flags := cmd.Flags()
	flags.Var(&since, "since", "only what was refused in this time up to now [all]")
	flags.StringVar(&f.Reason, "reason", "", "only this code, or reasons that hold this text")
	flags.StringVar(&f.Adapter, "adapter", "", "only spans of this adapter")
	flags.StringVar(&f.Source, "source", "", "only those refused at the door (otlp), or by a consumer (kafka)")
	flags.IntVar(&f.Partition, "partition", -1, "only those that a consumer found in this partition [any]")
	complete(cmd, "source", "otlp", "kafka")
	complete(cmd, "adapter", "kvreuse", "vllm", "lmcache")
	complete(cmd, "reason", "undecodable", "identifier", "time", "type", "text", "size", "unknown_name", "not_finite", "negative",
		"out_of_range", "twice", "candidates", "replay", "too_large", "version", "framing", "decode", "invalid", "conflict")
	return func(ids []string) (app.LetterFilter, error) {
		if f.Source != "" && f.Source != "otlp" && f.Source != "kafka" {
			return f, usageError{fmt.Errorf("--source is %q: give otlp or kafka", f.Source)}
		}
		if since < 0 || cmd.Flags().Changed("partition") && f.Partition < 0 {
			return f, usageError{fmt.Errorf("--since and --partition must not be negative")}
		}
		if since > 0 {
			f.Since = time.Now().Add(-time.Duration(since))
		}
		for _, id := range ids {
			f.IDs = append(f.IDs, strings.ToLower(id))
		}
		return f, nil
	}
}

func (c *cli) dlqList() *cobra.Command {
	var limit int
	var all bool
	cmd := &cobra.Command{
		Use: "list", Short: "Lists dead letters, the newest first, and counts them by reason", Args: noArgs,
		Long: `Lists dead letters, the newest first, and counts them by reason. A record that was
refused several times is one line. Those that were retried with success are left
out, unless --all is given.`,
		Example: `  kvwhatif dlq list --since 24h
  kvwhatif dlq list --reason candidates --output json`,
	}
	filter := letterFlags(cmd)
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "letters at most; 0: all")
	cmd.Flags().BoolVar(&all, "all", false, "those that were retried with success too")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f, err := filter(nil)
		if err != nil {
			return err
		}
		if limit < 0 {
			return usageError{fmt.Errorf("--limit is %d: give 1 or more, or 0 for all", limit)}
		}
		s, _, err := c.prepare(cmd)
		if err != nil {
			return err
		}
		f.All = all
		list, err := app.Letters(cmd.Context(), s, f, limit)
		if err != nil {
			return err
		}
		return c.show(cmd, list)
	}
	return cmd
}

func (c *cli) dlqShow() *cobra.Command {
	var raw string
	cmd := &cobra.Command{
		Use: "show ID", Short: "Shows all of one dead letter", Args: oneArg("ID, as `kvwhatif dlq list` shows it"),
		Long: `Shows all of one dead letter: where it came from, why it was refused, what to do,
and its content as far as it can be read. Without content its first bytes are
shown in hex.`,
		Example: `  kvwhatif dlq show 3f1c09a2b7de
  kvwhatif dlq show 3f1c09a2b7de --raw letter.bin`,
	}
	backendFlags(cmd, "kafka", "dir")
	cmd.Flags().StringVar(&raw, "raw", "", "file that the bytes are written to, as they were kept")
	_ = cmd.MarkFlagFilename("raw")
	cmd.ValidArgsFunction = c.letterIDs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, _, err := c.prepare(cmd)
		if err != nil {
			return err
		}
		letter, err := app.ShowLetter(cmd.Context(), s, strings.ToLower(args[0]))
		if err != nil {
			return err
		}
		if raw != "" {
			if err := os.WriteFile(raw, letter.RawBytes, 0o600); err != nil {
				return fmt.Errorf("write the letter's bytes: %w", err)
			}
		}
		return c.show(cmd, letter)
	}
	return cmd
}

func (c *cli) dlqRetry() *cobra.Command {
	var dry, yes bool
	cmd := &cobra.Command{
		Use: "retry [ID...]", Short: "Puts dead letters through the door again",
		Long: `Puts dead letters through the door again, once their cause is mended: spans are
read anew, parts go back to Kafka. Nothing is doubled by it, and it can be stopped
and begun again. A letter that is refused again stays in the list, with its new
reason and one retry more. Those that were cut at 64 KiB, and those in conflict
with what is in the tables, are not retried, and named.

It asks where more than 10 letters, or all, would be retried. It ends with 1 where
a letter was refused again.`,
		Example: `  kvwhatif dlq retry 3f1c09a2b7de
  kvwhatif dlq retry --reason version --dry-run`,
	}
	filter := letterFlags(cmd)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would come of it, and send nothing")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.ValidArgsFunction = c.letterIDs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := filter(args)
		if err != nil {
			return err
		}
		s, log, err := c.prepare(cmd)
		if err != nil {
			return err
		}
		bar := newProgress(os.Stderr)
		defer bar.end()
		o := app.RetryOptions{Filter: f, DryRun: dry, Progress: bar.tell}
		if !yes {
			o.Ask = func(n int) error { return confirm(fmt.Sprintf("Retry %d dead letters?", n)) }
		}
		result, err := app.RetryLetters(cmd.Context(), s, o, log)
		bar.end()
		if result != nil {
			if printErr := c.print(cmd.OutOrStdout(), result, func(w io.Writer) error {
				_, err := io.WriteString(w, result.Text())
				return err
			}); err == nil {
				err = printErr
			}
		}
		if err == nil && result.Refused > 0 {
			err = fmt.Errorf("%d dead letters were refused again: see `kvwhatif dlq list`", result.Refused)
		}
		return err
	}
	return cmd
}

// letterIDs completes the identifiers of open letters.
func (c *cli) letterIDs(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	s, _, err := c.settings(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := app.Letters(cmd.Context(), s, app.LetterFilter{Partition: -1}, 100)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, l := range list.Letters {
		out = append(out, l.ID+"\t"+l.Code+": "+l.Reason)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

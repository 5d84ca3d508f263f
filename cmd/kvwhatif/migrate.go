package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/kvwhatif/kvwhatif/internal/app"
	"github.com/kvwhatif/kvwhatif/internal/migrate"
)

func (c *cli) migrate() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "migrate", Short: "Creates or updates the tables of ClickHouse", Args: noArgs,
		Long: `Creates the tables of ClickHouse, or changes those of an earlier kvwhatif in
place; rows stay. load, serve and up do the same when they start. What is done is
recorded in schema_migrations, so it is done once; where it fails half way, run it
again. Several processes may do it at once.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, _, err := c.prepare(cmd)
			if err != nil {
				return err
			}
			steps, err := app.Migrate(cmd.Context(), s, dry)
			if err != nil {
				return err
			}
			if steps == nil {
				steps = []migrate.Step{}
			}
			answer := struct {
				Dry   bool           `json:"dry_run"`
				Count int            `json:"applied"` // or to apply
				Steps []migrate.Step `json:"steps"`
			}{dry, len(steps), steps}
			return c.print(cmd.OutOrStdout(), answer, func(w io.Writer) error { return writeSteps(w, steps, dry) })
		},
	}
	backendFlags(cmd, "clickhouse")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the statements that are missing and run none")
	return cmd
}

// writeSteps says what was done, and of what is only planned every statement.
func writeSteps(w io.Writer, steps []migrate.Step, dry bool) error {
	for _, s := range steps {
		if _, err := fmt.Fprintln(w, s.Name); err != nil {
			return err
		}
		for _, statement := range s.Statements {
			if !dry {
				break
			}
			if _, err := fmt.Fprintf(w, "%s;\n\n", statement); err != nil {
				return err
			}
		}
	}
	said := fmt.Sprintf("applied %d migrations; the tables are up to date", len(steps))
	if dry {
		said = fmt.Sprintf("%d migrations are missing; nothing was changed", len(steps))
	}
	_, err := fmt.Fprintln(w, said)
	return err
}

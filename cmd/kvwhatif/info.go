package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/kvwhatif/kvwhatif/internal/app"
	"github.com/kvwhatif/kvwhatif/internal/config"
)

// versionLine is what --version prints too.
func versionLine() string {
	return fmt.Sprintf("kvwhatif %s (%s, %s/%s)", app.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (c *cli) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Prints the version", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
				System  string `json:"system"`
				Commit  string `json:"commit,omitempty"`
			}{Version: app.Version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						v.Commit = s.Value
					}
				}
			}
			return c.print(cmd.OutOrStdout(), v, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, versionLine())
				return err
			})
		},
	}
}

func (c *cli) config() *cobra.Command {
	show := &cobra.Command{
		Use: "show", Short: "Shows every setting and where its value came from", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, loaded, err := c.settings(cmd)
			if err != nil {
				return err
			}
			origins := loaded.Origins()
			return c.print(cmd.OutOrStdout(), originsJSON(origins), func(w io.Writer) error {
				t := table.NewWriter()
				t.SetStyle(table.StyleLight)
				t.AppendHeader(table.Row{"setting", "value", "from"})
				for _, o := range origins {
					t.AppendRow(table.Row{o.Key, o.Value, o.Source})
				}
				_, err := fmt.Fprintln(w, t.Render())
				return err
			})
		},
	}
	backendFlags(show, "kafka", "clickhouse", "dir", "listen")
	return group("config", "Shows the settings", show)
}

type origin struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

func originsJSON(in []config.Origin) []origin {
	out := make([]origin, len(in))
	for i, o := range in {
		out[i] = origin(o)
	}
	return out
}

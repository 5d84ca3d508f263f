package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kvwhatif/kvwhatif/internal/app"
	"github.com/kvwhatif/kvwhatif/internal/config/units"
)

func (c *cli) coefficients() *cobra.Command {
	cmd := group("coefficients", "Looks at the published cost model, verifies it, rolls it back",
		c.coefficientsGet(), c.coefficientsVerify(), c.coefficientsHistory(), c.coefficientsRollback(), c.coefficientsStatus())
	cmd.Long = `Looks at coefficient documents, which calibrate publishes and coordinators decide
by. They are read from a coefficient server, or from the tables of ClickHouse
where --clickhouse or --dir is given.`
	return cmd
}

// sourceFlags name where documents are read from.
func sourceFlags(cmd *cobra.Command) *string {
	backendFlags(cmd, "clickhouse", "dir")
	url := cmd.Flags().String("url", "http://127.0.0.1:9470", "coefficient server")
	cmd.MarkFlagsMutuallyExclusive("url", "clickhouse")
	cmd.MarkFlagsMutuallyExclusive("url", "dir")
	return url
}

// source takes the server unless tables were asked for.
func source(cmd *cobra.Command, url string) app.CoefficientSource {
	f := cmd.Flags()
	return app.CoefficientSource{URL: url, Tables: f.Changed("clickhouse") || f.Changed("dir")}
}

// texter is a result that people can read.
type texter interface{ Text() string }

// show prints a result.
func (c *cli) show(cmd *cobra.Command, result texter) error {
	return c.print(cmd.OutOrStdout(), result, func(w io.Writer) error {
		_, err := io.WriteString(w, result.Text())
		return err
	})
}

func (c *cli) coefficientsGet() *cobra.Command {
	var revision int64
	var raw bool
	var signature, key string
	cmd := &cobra.Command{
		Use: "get", Short: "Shows the coefficients in force, or a revision", Args: noArgs,
		Example: `  kvwhatif coefficients get --public-key calibrate.pub
  kvwhatif coefficients get --raw --signature doc.jws > doc.json`,
	}
	url := sourceFlags(cmd)
	f := cmd.Flags()
	f.Int64Var(&revision, "revision", 0, "which; 0: the newest")
	f.BoolVar(&raw, "raw", false, "print the exact bytes that were signed")
	f.StringVar(&signature, "signature", "", "file that the detached signature is written to")
	f.StringVar(&key, "public-key", "", "PEM file of the key that must have signed it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if revision < 0 {
			return usageError{fmt.Errorf("--revision is %d: give a number from 1, or 0 for the newest", revision)}
		}
		s, _, err := c.prepare(cmd)
		if err != nil {
			return err
		}
		doc, err := app.Coefficients(cmd.Context(), s, source(cmd, *url), revision, key)
		if err != nil {
			return err
		}
		if signature != "" {
			if err := os.WriteFile(signature, []byte(doc.Signature+"\n"), 0o644); err != nil {
				return fmt.Errorf("write the signature: %w", err)
			}
		}
		if raw {
			_, err := cmd.OutOrStdout().Write(doc.Payload)
			return err
		}
		return c.show(cmd, doc)
	}
	return cmd
}

func (c *cli) coefficientsVerify() *cobra.Command {
	var signature, key string
	cmd := &cobra.Command{
		Use: "verify FILE", Short: "Checks the signature of a document", Args: oneArg("FILE, the exact bytes of a document"),
		Long: `Checks a detached signature over the exact bytes of a file, as
"kvwhatif coefficients get --raw --signature FILE" writes them. It ends with 1
where the signature does not verify.`,
		Example: "  kvwhatif coefficients verify doc.json --signature doc.jws --public-key calibrate.pub",
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := app.VerifyCoefficients(args[0], signature, key)
			if err != nil {
				return err
			}
			return c.print(cmd.OutOrStdout(), doc, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "verified: revision %d, %s\n", doc.Revision(), doc.Digest)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&signature, "signature", "", "detached signature (JWS), or a file that holds it")
	cmd.Flags().StringVar(&key, "public-key", "", "PEM file of the public keys, of which one must have signed")
	_ = cmd.MarkFlagRequired("signature")
	_ = cmd.MarkFlagRequired("public-key")
	return cmd
}

func (c *cli) coefficientsHistory() *cobra.Command {
	var limit int
	cmd := &cobra.Command{Use: "history", Short: "Lists what was published, newest first", Args: noArgs}
	url := sourceFlags(cmd)
	cmd.Flags().IntVarP(&limit, "lines", "n", 20, "publications at most")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if limit < 1 {
			return usageError{fmt.Errorf("--lines is %d: give 1 or more", limit)}
		}
		s, _, err := c.prepare(cmd)
		if err != nil {
			return err
		}
		entries, err := app.CoefficientHistory(cmd.Context(), s, source(cmd, *url), limit)
		if err != nil {
			return err
		}
		return c.show(cmd, entries)
	}
	return cmd
}

func (c *cli) coefficientsStatus() *cobra.Command {
	since := units.Duration(24 * time.Hour)
	cmd := &cobra.Command{Use: "status", Short: "Says which document each coordinator applied or refused", Args: noArgs}
	url := sourceFlags(cmd)
	cmd.Flags().Var(&since, "since", "only coordinators that spoke in this time up to now")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, _, err := c.prepare(cmd)
		if err != nil {
			return err
		}
		statuses, err := app.CoefficientStatus(cmd.Context(), s, source(cmd, *url), time.Duration(since))
		if err != nil {
			return err
		}
		return c.show(cmd, statuses)
	}
	return cmd
}

func (c *cli) coefficientsRollback() *cobra.Command {
	var to int64
	var yes bool
	cmd := &cobra.Command{
		Use: "rollback", Short: "Publishes the laws of an earlier revision again", Args: noArgs,
		Long: `Publishes the laws of an earlier revision again, under a new and higher revision
and signed anew, with the link prices of now. Coordinators follow it as any other.
It needs the tables of ClickHouse and the signing key.`,
		Example: "  kvwhatif coefficients rollback --to 41",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to < 1 {
				return usageError{fmt.Errorf("--to is %d: give a revision, see `kvwhatif coefficients history`", to)}
			}
			if !yes {
				if err := confirm(fmt.Sprintf("Publish the laws of revision %d to every coordinator?", to)); err != nil {
					return err
				}
			}
			s, _, err := c.prepare(cmd)
			if err != nil {
				return err
			}
			revision, err := app.RollbackCoefficients(cmd.Context(), s, to)
			if err != nil {
				return err
			}
			return c.print(cmd.OutOrStdout(), map[string]int64{"revision": revision, "laws_of": to}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "published revision %d with the laws of revision %d\n", revision, to)
				return err
			})
		},
	}
	backendFlags(cmd, "clickhouse", "dir")
	cmd.Flags().Int64Var(&to, "to", 0, "revision whose laws are published again")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().String("key", "", "PEM file of the Ed25519 key [calibrate.pem in --dir]")
	_ = cmd.MarkFlagRequired("to")
	return cmd
}

// confirm asks on a terminal; elsewhere nobody can answer.
func confirm(question string) error {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return usageError{fmt.Errorf("this asks first, and standard input is no terminal: give --yes")}
	}
	fmt.Fprintf(os.Stderr, "%s [y/N] ", question)
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil && err != io.EOF {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return fmt.Errorf("not confirmed: nothing was done")
}

// oneArg takes one argument, and says what it is where it is missing.
func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usageError{fmt.Errorf("%s takes one argument, %s", cmd.CommandPath(), what)}
		}
		return nil
	}
}

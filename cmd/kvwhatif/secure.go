package main

import "github.com/spf13/cobra"

// doorFlags are of commands that others come to.
func doorFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.String("tls-cert", "", "PEM file of the server's certificate; without it there is no TLS")
	f.String("tls-key", "", "PEM file of its private key")
	f.String("tls-client-ca", "", "PEM file of authorities; clients have to show a certificate of them")
	f.String("tokens", "", "file of bearer tokens, one a line; clients have to show one")
}

// senderFlags are of commands that go to a collector or a coefficient server. A
// token itself is no flag: command lines are seen by everybody on a machine.
func senderFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Bool("sender-tls", false, "send spans over TLS")
	f.String("sender-ca", "", "PEM file of the server's authorities [the system's]")
	f.String("sender-cert", "", "PEM file of this client's certificate")
	f.String("sender-key", "", "PEM file of its private key")
	f.String("sender-token-file", "", "file of the bearer token to show")
}

// Package config fills a settings struct from its defaults, a YAML file, the
// environment and the command line, each later one winning, and remembers
// where each value came from.
//
// Fields carry a `koanf:"name"` tag; nested structs make keys with dots, such
// as collect.brokers. The same key is the variable KVWHATIF_COLLECT_BROKERS
// and the flag --collect-brokers (or what Options.Flags maps it to). A field
// tagged `secret:"true"` is never shown.
package config

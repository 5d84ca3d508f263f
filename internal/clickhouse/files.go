package clickhouse

import (
	"crypto/rand"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Names inside the directory of an embedded server.
const (
	configFile = "config.xml"
	usersFile  = "users.xml"
	logFile    = "server.log"
	dataDir    = "data"
)

// Users and database of an embedded server.
const (
	// Database is the database that an embedded server creates.
	Database = "kvwhatif"
	// Writer may do everything.
	Writer = "kvwhatif"
	// Reader may only select: for Grafana and for people.
	Reader = "reader"
)

// passwords of the two users of an embedded server.
type passwords struct{ writer, reader string }

// configXML keeps the server small beside the other programs of one machine:
// caches that only pay on large servers are cut to tens of megabytes. System
// log tables are never written.
const configXML = `<clickhouse>
  <logger><level>warning</level><log>%[1]s/server.log</log><size>10M</size><count>2</count></logger>
  <path>%[1]s/data/</path>
  <tmp_path>%[1]s/data/tmp/</tmp_path>
  <listen_host>127.0.0.1</listen_host>
  <http_port>%[2]d</http_port>
  <users_config>%[1]s/users.xml</users_config>
  <user_directories><users_xml><path>%[1]s/users.xml</path></users_xml></user_directories>
  <timezone>UTC</timezone>
  <max_server_memory_usage_to_ram_ratio>0.5</max_server_memory_usage_to_ram_ratio>
%[3]s  <mark_cache_size>67108864</mark_cache_size>
  <uncompressed_cache_size>0</uncompressed_cache_size>
  <index_mark_cache_size>16777216</index_mark_cache_size>
  <primary_index_cache_size>67108864</primary_index_cache_size>
  <mmap_cache_size>64</mmap_cache_size>
  <compiled_expression_cache_size>16777216</compiled_expression_cache_size>
  <background_pool_size>2</background_pool_size>
  <background_merges_mutations_concurrency_ratio>2</background_merges_mutations_concurrency_ratio>
  <background_schedule_pool_size>4</background_schedule_pool_size>
  <merge_tree>
    <number_of_free_entries_in_pool_to_lower_max_size_of_merge>1</number_of_free_entries_in_pool_to_lower_max_size_of_merge>
    <number_of_free_entries_in_pool_to_execute_mutation>1</number_of_free_entries_in_pool_to_execute_mutation>
    <number_of_free_entries_in_pool_to_execute_optimize_entire_partition>1</number_of_free_entries_in_pool_to_execute_optimize_entire_partition>
  </merge_tree>
</clickhouse>
`

// usersXML has the user of the server's own idle session, the writer and the
// reader. The first has no password, and any loopback address is as good as ::1 to
// the server, so everybody on this machine may be it: it may listen, which its start
// needs, and nothing else. readonly 2
// lets the reader's driver set query settings, and nothing else; changing
// data, tables and access is refused.
const usersXML = `<clickhouse>
  <profiles>
    <default>
      <async_insert>0</async_insert>
      <query_profiler_real_time_period_ns>0</query_profiler_real_time_period_ns>
      <query_profiler_cpu_time_period_ns>0</query_profiler_cpu_time_period_ns>
    </default>
    <reader>
      <readonly>2</readonly>
      <max_memory_usage>2000000000</max_memory_usage>
      <max_execution_time>60</max_execution_time>
    </reader>
  </profiles>
  <users>
    <default><password></password><networks><ip>::1</ip></networks><profile>default</profile><quota>default</quota><grants><query>GRANT SYSTEM LISTEN ON *.*</query></grants></default>
    <kvwhatif><password>%[1]s</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></kvwhatif>
    <reader><password>%[2]s</password><networks><ip>127.0.0.1</ip></networks><profile>reader</profile><quota>default</quota><grants><query>GRANT SELECT ON kvwhatif.*</query><query>GRANT SELECT ON system.*</query></grants></reader>
  </users>
  <quotas><default/></quotas>
</clickhouse>
`

var passwordOf = regexp.MustCompile(`<(kvwhatif|reader)><password>([^<]+)</password>`)

// writeFiles prepares the directory of a server, and keeps the passwords of an
// earlier run so that addresses given out stay good.
func writeFiles(cfg EmbeddedConfig) (passwords, error) {
	dir := cfg.Dir
	if err := os.MkdirAll(filepath.Join(dir, dataDir), 0o700); err != nil {
		return passwords{}, fmt.Errorf("make the ClickHouse directory: %w", err)
	}
	users := filepath.Join(dir, usersFile)
	p := readPasswords(users)
	body := fmt.Sprintf(usersXML, p.writer, p.reader)
	if err := replaceFile(users, body); err != nil {
		return passwords{}, fmt.Errorf("write ClickHouse users: %w", err)
	}
	body = fmt.Sprintf(configXML, escapeXML(dir), cfg.Port, cfg.more())
	if err := replaceFile(filepath.Join(dir, configFile), body); err != nil {
		return passwords{}, fmt.Errorf("write the ClickHouse configuration: %w", err)
	}
	return p, nil
}

// readPasswords takes those of an existing users.xml, and new ones for users
// that it lacks.
func readPasswords(path string) passwords {
	p := passwords{writer: rand.Text(), reader: rand.Text()}
	old, err := os.ReadFile(path)
	if err != nil {
		return p
	}
	for _, m := range passwordOf.FindAllStringSubmatch(string(old), -1) {
		if m[1] == Writer {
			p.writer = m[2]
		} else {
			p.reader = m[2]
		}
	}
	return p
}

// replaceFile writes a file that only its owner may read, whole or not at all.
func replaceFile(path, body string) error {
	next := path + ".new"
	if err := os.WriteFile(next, []byte(body), 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// more is what of the configuration only some servers have.
func (cfg EmbeddedConfig) more() string {
	s := cfg.Config
	if cfg.Native != 0 {
		s = fmt.Sprintf("  <tcp_port>%d</tcp_port>\n%s", cfg.Native, s)
	}
	return s
}

func escapeXML(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}

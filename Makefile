# What people and CI run. `make` alone lists the targets.
# Variables: FUZZTIME=5s of each fuzz target; KILLS=200 of make crash; CI=true makes every real part required.

SHELL := /bin/sh
BIN := bin/kvwhatif
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -s -w -X github.com/kvwhatif/kvwhatif/internal/app.Version=$(VERSION)
FUZZTIME ?= 5s
BENCHTIME ?= 1s
KILLS ?= 200

# Under CI every part is required and the race detector is on; a laptop runs
# what it can.
ifeq ($(CI),)
  TESTFLAGS ?= -timeout 10m
  OPTIONAL := || true
else
  TESTFLAGS ?= -race -timeout 15m
  OPTIONAL :=
endif

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

.PHONY: build
build: ## bin/kvwhatif, without cgo
	@CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/kvwhatif

.PHONY: demo
demo: engine build ## the whole loop on a real trace, on this machine
	@$(BIN) demo

.PHONY: test
test: ## all tests, with the real parts that this machine can have
	@deploy/install-clickhouse.sh $(OPTIONAL)
	@go run ./internal/kafka/install $(OPTIONAL)
	@deploy/install-chromium.sh $(OPTIONAL)
	@deploy/install-axe.sh $(OPTIONAL)
	go vet ./...
	go test $(TESTFLAGS) ./...

.PHONY: ui-test
ui-test: ## the page and the report in a browser (SHOTS=folder keeps pictures)
	@deploy/install-chromium.sh
	@deploy/install-axe.sh
	go test ./internal/browsertest ./dashboards/report ./dashboards/live

.PHONY: nightly
nightly: ## the long tests too, then a minute of each fuzz target
	@deploy/install-clickhouse.sh
	@go run ./internal/kafka/install
	@deploy/install-chromium.sh
	@deploy/install-axe.sh
	@deploy/install-llama.sh
	@deploy/install-vllm.sh
	KVWHATIF_NIGHTLY=1 go test -tags nightly -timeout 3h ./...
	cd dashboards/alerts/promtest && go test -count=1 ./... # it reads files of another module, which the cache of tests does not see
	@$(MAKE) --no-print-directory fuzz FUZZTIME=1m

.PHONY: crash
crash: ## kill -9 every process, KILLS=200 times, and count again what was sent
	@deploy/install-clickhouse.sh
	@go run ./internal/kafka/install
	KVWHATIF_CRASH_KILLS=$(KILLS) go test ./e2e/crash -run 'TestKills$$|TestKillsOfUp$$' -count=1 -v -timeout 2h

.PHONY: truth
truth: ## hold estimates to worlds whose truth is known (TRUTH="--quick", "--json"), some 5 minutes
	go run ./e2e/truth $(TRUTH)

.PHONY: harm
harm: ## measure on llama.cpp servers what replays cost live traffic (HARM="--pairs 8", "--json"), some 10 minutes
	@deploy/install-llama.sh
	go run ./e2e/harm $(HARM)

.PHONY: generate
generate: ## rewrite what is generated: protocol code, dashboards, schemas
	go generate ./...

.PHONY: dashboards
dashboards: ## hold the dashboards' JSON to its definitions, and run each panel's query on a demo's rows
	@deploy/install-clickhouse.sh $(OPTIONAL)
	go test ./dashboards/grafana

.PHONY: plugin
plugin: ## the Grafana data source: module.js of its sources, and its zip in bin
	cd dashboards/plugin/ui && npm ci && npm run --silent typecheck && npm run --silent build
	go run ./dashboards/plugin/pack

.PHONY: dashboards-bench
dashboards-bench: engine ## what each panel takes over ten million requests, some 10 minutes
	go test -tags nightly ./dashboards/grafana -run TestTenMillionRequests -count=1 -v -timeout 1h

.PHONY: alerts
alerts: ## hold the alert rules to their definitions, and see each fire, in ClickHouse and by Prometheus's rules library
	@deploy/install-clickhouse.sh $(OPTIONAL)
	go test ./dashboards/alerts
	cd dashboards/alerts/promtest && go test -count=1 ./... # it reads files of another module, which the cache of tests does not see

.PHONY: engine
engine: ## put the embedded ClickHouse into the user's cache
	@deploy/install-clickhouse.sh

.PHONY: kafka
kafka: ## put Apache Kafka, which tests use, into the user's cache
	@go run ./internal/kafka/install

.PHONY: llama
llama: ## build the llama.cpp server, a real engine, into the user's cache (5 to 15 minutes)
	@deploy/install-llama.sh

.PHONY: vllm
vllm: ## put vLLM and LMCache for CPUs, real engines, into the user's cache (6 GB)
	@deploy/install-vllm.sh

.PHONY: lint
lint: ## gofmt and go vet, on each system that is supported
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet -tags nightly ./...
	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go vet ./...
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 go vet ./...

.PHONY: fuzz
fuzz: ## a short run of each fuzz target
	@mkdir -p bin
	@grep -rnoE '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' . | sed -E 's|^\./(.*)/[^/]+_test.go:[0-9]+:func (Fuzz.*)|\1 \2|' | sort >bin/fuzz.txt
	@while read -r dir name; do \
	  out=$$(go test "./$$dir" -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x 2>&1) || { echo "$$out"; exit 1; }; \
	  echo "$$dir $$name: $$(echo "$$out" | grep '^fuzz: elapsed' | tail -n 1)"; \
	done <bin/fuzz.txt

.PHONY: bench
bench: engine kafka ## measure against the targets and an OpenTelemetry Collector (BENCH_PEER=0: without), some 20 minutes
	go run ./bench --results bench/results --profiles bench/profiles --write docs/PERFORMANCE.md $(BENCH)

.PHONY: microbench
microbench: ## the benchmarks of single packages
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

.PHONY: clean
clean: ## what build made; the caches stay
	@rm -rf bin

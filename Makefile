# Tasks. `make help` lists them. Everything runs from here; the modules are those of
# go.work.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS   += --no-builtin-rules --no-print-directory
export PATH := $(PATH):/usr/local/go/bin:/usr/sbin
# One compilation serves every checkout of the tree, and the clones that the tests of the pages
# make. No build of theirs is debugged, so none has debug information, a fifth of a compilation.
# The largest packages, which are generated, compile in half the time without inlining. Those
# that no test calls often compile in 60 to 90 % of the time without optimization.
uninlined   := github.com/redis github.com/jackc cel.dev go.opentelemetry.io
unoptimized := github.com/envoyproxy github.com/cncf github.com/go-analyze github.com/quic-go go.mongodb.org github.com/alibaba github.com/charmbracelet \
	github.com/prometheus/procfs github.com/go-playground github.com/labstack github.com/gin-gonic github.com/gofiber github.com/valyala github.com/pressly
export GOFLAGS += -trimpath -buildvcs=false -gcflags=all=-dwarf=false $(foreach p,$(uninlined),'-gcflags=$p/...=-dwarf=false -l') $(foreach p,$(unoptimized),'-gcflags=$p/...=-dwarf=false -N -l')

FUZZTIME  ?= 5s
BENCH     ?= .
BENCHTIME ?= 1s
ROWS      ?= .
ROUNDS    ?= 5
TRAFFIC   ?= 60s
REDIS     ?= 300000
VERSION   ?=
SOAK      ?= 60m
SEEDS     ?= 1000
SEED      ?=
CELLS     ?= .

# The modules of the workspace, as patterns. e2e starts servers, except in simulate: its
# packages run in stages of their own, those of servers one after the other with the longest
# first. Evaluated only where they are used.
modules = $(shell go list -m -f '{{.Dir}}' | sed 's|^$(CURDIR)|.|')
units    = $(addsuffix /...,$(filter-out ./e2e,$(modules))) ./e2e/simulate/...
servers  = ./e2e/edge ./e2e/consoletest $(shell go list ./e2e/... | grep -v -e '/e2e$$' -e /e2e/simulate -e '/e2e/flashsale$$' -e '/e2e/edge$$' -e '/e2e/consoletest$$')

# Packages with concurrency, which run under the race detector only. It finds nothing in a
# package without goroutines, such as policy and internal/algo. Those with race_on_test.go have
# tests that need the ordinary build too, such as allocation budgets; the root has those of the
# layers and the language.
racy := . $(addprefix ./,$(sort $(dir $(shell grep -lE '^\s+go [a-z]|\.Go\b|synctest' internal/*/*.go)))) ./memstore ./share ./enforce ./failover ./httplimit/... ./guard/... ./transport ./rpclimit \
	./contrib/connect/... ./contrib/fiber/... ./contrib/grpc/... ./weirfile/published \
	$(addprefix ./cmd/weir/internal/,access/... adjustment/... admin/... audit/... decisionlog/... demo/... forwardauth/... gateway/... httpapi/... live/... metrics/... nodes/... \
	ratelimit/... respd/... rls/... run/... telemetry/... top/... traffic watch/...)
both := . $(sort $(patsubst %/race_on_test.go,./%,$(wildcard */race_on_test.go cmd/weir/internal/*/race_on_test.go)))
plain = $(sort $(both) $(filter-out $(shell go list $(racy)),$(shell go list $(units))))

# Build tags of checks and tests: the crash points of the flash sale, and gin without
# MessagePack, which no test uses and which compiles for 20 seconds.
tags := crashpoints,nomsgpack

# Compilers, checkers and tests trade memory for time. A collection less often saves a tenth of the
# CPU time of the tests.
fast  := GOGC=off GOMEMLIMIT=3GiB
build := '-toolexec=env $(fast)'

# Packages that only the tests of e2e reach, for make cover.
SHARED := github.com/floodweir/weir/redisstore,github.com/floodweir/weir/contrib/rueidis,github.com/floodweir/weir/contrib/goredis

.NOTPARALLEL:

.PHONY: help
help: ## list the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# The stages of make test. The first two use the CPUs fully if their results are not cached. Those
# with servers wait more than they compute, so they run in lanes beside each other. No test of them
# compares a rate or a duration with more than a bound that holds on a busy machine.
#
# To change the lanes, move stages in server_lanes: "next" continues a lane and "beside" starts
# another. What waits most starts first. redis-race computes and hardly waits, so it comes last and
# fills the gaps that the others leave. Some unit tests wait too, so more packages run at once than
# there are CPUs.
# The tests of the Redis store run under the race detector only, in a build that leaves out tests
# with large imports.
race       = race $(build) -vet=off -race -timeout=10m -- $(racy)
unit       = unit $(build) -vet=off -tags=$(tags) -timeout=10m -p=4 -- $(plain)
redis_race = redis-race $(build) -vet=off -race -tags=onlyredis -count=1 -timeout=20m -run=^TestRedis -- ./e2e
flashsale  = flashsale $(build) -vet=off -count=1 -timeout=20m -- ./e2e/flashsale
e2e        = e2e $(build) -vet=off -count=1 -timeout=20m -skip=^TestRedis -- ./e2e
edge       = edge $(build) -vet=off -count=1 -p=1 -timeout=20m -- $(servers)

server_lanes = $(flashsale) next $(redis_race) beside $(e2e) beside $(edge)

# check runs beside the tests. With an empty build cache it keeps one core busy and compiles what the
# later stages need, so the race stage comes first and they have little to compile twice.
.PHONY: test
test: need .bin/tally ## everything that CI does: check, all tests with real servers, the race detector
	@start=$$SECONDS; bad=; make --no-print-directory --keep-going check & \
	GOGC=400 .bin/tally $(race) then $(unit) then $(server_lanes) || bad=1; \
	wait $$! || bad=1; \
	echo "make test: $$((SECONDS - start)) s"; \
	if [ -n "$$bad" ]; then echo "make test: FAILED (see above)"; exit 1; fi

.PHONY: need
need: ## install the servers and tools that the tests run, or say what is missing
	@tools/need.sh git:git curl:curl gcc:gcc,libc6-dev redis-server:redis-server redis-cli:redis-tools nginx:nginx-light \
		/usr/lib/nginx/modules/ngx_http_lua_module.so:libnginx-mod-http-lua /usr/share/lua/5.1/resty/core.lua:lua-resty-core \
		/usr/share/lua/5.1/nginx/redis.lua:lua-nginx-redis /usr/share/lua/5.1/cjson/util.lua:lua-cjson \
		'/usr/lib/postgresql/*/bin/initdb:postgresql' wrk:wrk 'chromium-headless-shell|chromium:chromium-headless-shell' caddy:caddy spin:spin

.PHONY: check
# vet runs once for the workspace. Each go.mod has the versions of the workspace (go work sync),
# so a package has one build with and without it.
check: .bin/vet ## gofmt, tidy go.mod files, and all checks of go vet and staticcheck
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not gofmt-ed:" $$unformatted; exit 1; fi
	@known=$$(go list -m -f '{{if .Version}}{{.Path}} {{.Version}}{{end}}' all); \
		printf '%s\n' $(modules) | KNOWN="$$known" $(fast) xargs -P 2 -I {} tools/tidy.sh {}
	@GOGC=400 .bin/vet -tags=$(tags) -checks all $(addsuffix /...,$(modules))

.PHONY: plots
plots: ## write the plots of docs/protection.md and docs/shares.md again
	@cd benchmarks && go test -vet=off -count 1 -run '^Test(Protect|Share)' -plot $(CURDIR)/docs/plots .

.PHONY: figures
figures: ## words, sizes and repetition of the source; DIR=another checkout to compare
	@go run ./tools/figures $(DIR)
	@cd $(or $(DIR),.) && go test -vet=off -count 1 -run 'TestSizes$$' -v . | sed -n '/exported names/,/^---/p'

.PHONY: lint
lint: ## golangci-lint with .golangci.yml, beyond what check asks (builds it: minutes, once)
	@command -v golangci-lint >/dev/null || [ -x .bin/golangci-lint ] || \
		{ echo "building golangci-lint"; GOBIN=$(CURDIR)/.bin GOWORK=off go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0; }
	@bad=; for m in $(modules); do \
		echo "lint $$m"; \
		(cd $$m && GOWORK=off PATH="$(CURDIR)/.bin:$$PATH" golangci-lint run -c $(CURDIR)/.golangci.yml ./...) || bad="$$bad $$m"; \
	done; if [ -n "$$bad" ]; then echo "lint failed:$$bad"; exit 1; fi

.PHONY: race
race: need .bin/tally ## every module under the race detector
	@.bin/tally race -race -count=1 -timeout=30m -- $(units) then e2e -race -count=1 -timeout=30m -p=1 -- ./e2e/...

.PHONY: fuzz
fuzz: ## every fuzzer for FUZZTIME (5s) each
	@for f in $$(grep -rlE '^func Fuzz' --include='*_test.go' .); do \
		for name in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' $$f); do \
			echo "fuzz $${f%/*} $$name"; \
			(cd $${f%/*} && go test -run='^$$' -fuzz="^$$name\$$" -fuzztime=$(FUZZTIME) .) || exit 1; \
		done; \
	done

# Measurements compile as users do, with inlining everywhere.
bench bench-peers bench-growth load-table plots traffic flashsale flashsale-table: export GOFLAGS := -trimpath -buildvcs=false -gcflags=all=-dwarf=false

.PHONY: bench
bench: ## every benchmark; BENCH=regexp and BENCHTIME choose
	@for m in $(modules); do \
		(cd $$m && go test -run='^$$' -bench='$(BENCH)' -benchtime=$(BENCHTIME) -benchmem ./... | { grep -vE 'no test files|^(PASS|ok) ' || true; }) || exit 1; \
	done

.PHONY: bench-peers
bench-peers: need ## all limiters beside each other, in ROUNDS (5): writes docs/benchmarks-peers.md (15 minutes); ROWS='local|redis' measures and prints some
	@cd benchmarks && go test -vet=off -count=1 -timeout=60m -v -run='^TestPeers$$' . -args -peers.rows='$(ROWS)' -peers.rounds=$(ROUNDS) -peers.time=500ms $(if $(filter .,$(ROWS)),-peers.write=$(CURDIR)/docs/benchmarks-peers.md)

.PHONY: bench-growth
bench-growth: need ## cost against keys, processes, policies, limits and connections: writes the same page
	@cd benchmarks && go test -vet=off -count=1 -timeout=60m -v -run='^TestPeers$$' . -args -peers.growth -peers.rows='$(ROWS)' -peers.rounds=$(ROUNDS) -peers.time=500ms $(if $(filter .,$(ROWS)),-peers.write=$(CURDIR)/docs/benchmarks-peers.md)

.PHONY: generate
generate: ## run go generate everywhere
	@for m in $(modules); do (cd $$m && go generate ./...) || exit 1; done

.PHONY: cover
cover: need ## statement coverage of each module by its own tests, and by those of e2e; profiles in cover/
	@mkdir -p cover; for m in . ./cmd/weir ./weirfile; do \
		profile=$(CURDIR)/cover/$$(echo $$m | tr -c 'a-z\n' _).out; \
		(cd $$m && go test -coverpkg=./... -coverprofile=$$profile ./... >/dev/null && \
			echo "$$m: $$(go tool cover -func=$$profile | tail -n 1 | awk '{ print $$NF }')") || exit 1; \
	done
	@cd e2e && go test -p=1 -coverpkg=$(SHARED) -coverprofile=../cover/e2e.out ./... >/dev/null && \
		echo "redisstore and contrib, by e2e: $$(go tool cover -func=../cover/e2e.out | tail -n 1 | awk '{ print $$NF }')"

.PHONY: mutants
mutants: need ## plant the bugs of tools/mutants/mutants.txt one by one: a test has to catch each
	@go run ./tools/mutants

.PHONY: test-long
test-long: need ## the differential runs at full length, of a random SEED: function, memory and Redis against the model, and Lua; estimates of 200 traces; weir go without -trimpath
	@seed=$(or $(SEED),$$RANDOM) && echo "seed=$$seed" && WEIR_LONG=1 go test -count=1 -timeout=120m -v -run=Diff ./storetest -args -seed=$$seed
	@cd cmd/weir && WEIR_LONG=1 go test -count=1 -timeout=20m -v -run='^Test(Threshold|Memory|Abusers|22Bounds)$$' ./internal/traffic/... ./internal/suggest ./internal/rlqs
	@cd cmd/weir && WEIR_LONG=1 go test -count=1 -timeout=20m -v -run='^TestGo$$/^positions$$' .
	@cd e2e && seed=$(or $(SEED),$$RANDOM) && echo "twin.seed=$$seed" && go test -count=1 -timeout=60m -v -run=Twin ./redistest -args -twin.asks=20000 -twin.seed=$$seed
	@cd e2e && go test -count=1 -timeout=120m -v -run=Conformance . -args -redis.decisions=$(REDIS)
	@$(MAKE) release-check

.PHONY: release
release: ## tag all modules as VERSION=v0.1.0 in a scratch clone, check there that users obtain each, and print how to publish the tags
	@go run ./tools/release -version '$(VERSION)'

.PHONY: release-check
release-check: ## the same for the last commit, without a changelog: nothing remains (seven minutes, with an empty module cache)
	@go run ./tools/release -version '$(or $(VERSION),v0.999.0)' -rehearse

.PHONY: journeys
journeys: need ## follow docs/quick-start.md from an empty directory: cover/quick-start.txt has what it prints and the seconds, and two seconds of silence are an error
	@mkdir -p cover
	@cd e2e && WEIR_TRANSCRIPT=$(CURDIR)/cover go test -count=1 -timeout=20m -run='^TestDocs$$/^quick-start.md$$' . && head -n 6 $(CURDIR)/cover/quick-start.txt

.PHONY: apidiff
apidiff: ## exported names that changed since the last release
	@go run ./tools/release -api

.PHONY: actionlint
actionlint: ## check the workflows of .github (builds actionlint, once)
	@go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

.PHONY: site
site: ## build the pages as a site in site/.vitepress/dist, and check their links (needs Node 20 and npm)
	@cd site && npm ci --no-audit --no-fund --loglevel=error && npm run --silent build

.PHONY: packages
packages: .bin/goreleaser .bin/cyclonedx-gomod ## build archives, packages and images of the last commit twice, as a snapshot in dist/, and check them; SINGLE=1 for this system only (ten minutes)
	@tools/need.sh gpg:gnupg dpkg-deb:dpkg rpm:rpm man:man-db systemd-analyze:systemd buildah:buildah bwrap:bubblewrap
	@GOFLAGS= PATH="$(CURDIR)/.bin:$$PATH" go run ./tools/packages $(if $(SINGLE),-single)

.bin/goreleaser:
	@GOBIN=$(CURDIR)/.bin GOFLAGS= go install github.com/goreleaser/goreleaser/v2@v2.16.0

.bin/cyclonedx-gomod:
	@GOBIN=$(CURDIR)/.bin GOFLAGS= go install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

.PHONY: deploy-check
deploy-check: ## check the Helm chart, the compose file and the examples of Envoy Gateway by the types of their readers; test the module of Caddy
	@echo "deploy and contrib/caddy are outside of the workspace and of make test: they compile for a minute each, and would change versions of ten modules"
	@for m in deploy contrib/caddy; do (cd $$m && export GOWORK=off && go mod tidy -diff && go vet . && go test -count=1 .) || exit 1; done

.PHONY: ledger-check
ledger-check: ## test the ledger in NATS, with a server in the test (outside of the workspace: it compiles for half a minute, and changes versions)
	@cd contrib/natsledger && export GOWORK=off && go mod tidy -diff && go vet . && go test -count=1 .

.PHONY: model
model: ## visit all states of the protocol of shares: a model for Spin (two minutes)
	@tools/need.sh spin:spin gcc:gcc,libc6-dev
	@go test -vet=off -count=1 -timeout=30m -v ./share/internal/model -args -model.full

.PHONY: simulate
simulate: ## nodes over a model of Redis with faults, in virtual time: SEEDS=1000 runs, or SEED=17 with its event log
	@cd e2e && go test -count=1 -timeout=120m -v -run='^TestSimulation$$' ./simulate -args -seeds=$(SEEDS) $(if $(SEED),-seed=$(SEED))

.PHONY: traffic
traffic: need ## real traffic: nginx behind the gateway, wrk in front, for TRAFFIC (60s) each; then a file that changes meanwhile
	@cd e2e && WEIR_TRAFFIC=$(TRAFFIC) go test -count=1 -timeout=30m -v -run='^TestTraffic(Memory|Redis|Cluster)|^TestReloadUnderLoad' .

.PHONY: load-table
load-table: need ## 10 to 6,000 connections, paced or not, on memory, Redis and a Redis with pauses: cover/load.md (five minutes); CELLS=regexp chooses
	@mkdir -p cover
	@cd e2e && go test -count=1 -timeout=20m -v -run='^TestLoadTable$$' . -args -load.cells='$(CELLS)' -load.time=3s -load.table=$(CURDIR)/cover/load.md

.PHONY: flashsale
flashsale: need ## the flash sale at full counts: a million commands, kills, faults and load (more than an hour)
	@mkdir -p cover
	@cd flashsale && FLASHSALE_LONG=1 go test -tags=crashpoints -count=1 -timeout=60m -p=1 -v ./...
	@cd e2e && FLASHSALE_LONG=1 FLASHSALE_TABLE=$(CURDIR)/cover/flashsale-load.md go test -count=1 -timeout=120m -p=1 -v ./flashsale

.PHONY: flashsale-table
flashsale-table: need ## the cost of idle sales, of rejections and of a purchase, for 1 to 4 processes and 1 to 500 open sales: cover/flashsale-cost.md (three minutes); FLASHSALE_PROFILES=/DIR writes CPU profiles
	@mkdir -p cover
	@cd e2e && FLASHSALE_LONG=1 FLASHSALE_TABLE=$(CURDIR)/cover/flashsale-cost.md go test -count=1 -timeout=40m -v -run='^Test(Idle|Purchases|Rejections)$$' ./flashsale

.PHONY: flashsale-experiments
flashsale-experiments: need ## abandoned tickets, units while buyers wait, hoarders, 60 buyers behind one address, idle sales (a minute)
	@cd flashsale && go test -count=1 -v -run='^Test(AbandonedTickets|NeverIdle|Hoarders)$$' ./meminventory
	@cd flashsale && go test -count=1 -v -run='^TestBuyersBehindOneAddress$$' ./web
	@cd e2e && go test -count=1 -v -run='^TestIdle$$' ./flashsale

.PHONY: flashsale-faults
flashsale-faults: need ## both databases killed together, a process stopped in a transaction or cut off from one database: 260 rounds (half an hour)
	@cd e2e && FLASHSALE_LONG=1 go test -count=1 -timeout=90m -v -run='^Test(BothDatabasesKilled|StoppedInTransaction|CutOff)$$' ./flashsale

.PHONY: soak
soak: need ## sales with faults in their middle for SOAK (60m), one after the other
	@cd e2e && FLASHSALE_SOAK=$(SOAK) go test -count=1 -timeout=180m -v -run='^TestSoak$$' ./flashsale

.bin/tally: $(wildcard tools/tally/*.go) tools/go.mod
	@mkdir -p .bin && $(fast) go build -o .bin/tally ./tools/tally

.bin/vet: $(wildcard tools/vet/*.go) tools/go.mod
	@mkdir -p .bin && $(fast) go build -o .bin/vet ./tools/vet

# Weir's tasks. `make help` lists them. Everything runs from here; the modules
# are those of go.work, and tools/ beside them.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS   += --no-builtin-rules --no-print-directory
export PATH := $(PATH):/usr/local/go/bin:/usr/sbin

FUZZTIME  ?= 5s
BENCH     ?= .
BENCHTIME ?= 1s
TRAFFIC   ?= 60s
REDIS     ?= 300000
SOAK      ?= 60m

# The modules but e2e, whose tests start servers: e2e itself and e2e/flashsale measure
# rates and waits, and run alone. Evaluated only where it is used.
modules = $(shell go list -m -f '{{.Dir}}' | sed 's|^$(CURDIR)|.|' | grep -v '^\./e2e$$')

# Where things run side by side: what the race detector is worth its time for.
racy := . internal/... memstore/... policy enforce httplimit/... guard/... transport rpclimit contrib/connect/... contrib/fiber/... contrib/grpc/... \
	$(filter-out $(addprefix cmd/weir/internal/,directive generate vetcheck weave wrapper config edge explain importer nginxconf problem),$(wildcard cmd/weir/internal/*))

# What joins the places that tally gives to go test together; check has vetted them.
comma := ,
space := $(subst ,, )

# What only the tests of e2e reach.
SHARED := github.com/floodweir/weir/redisstore,github.com/floodweir/weir/contrib/rueidis,github.com/floodweir/weir/contrib/goredis

.NOTPARALLEL:

.PHONY: help
help: ## list the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: test
test: need .bin/tally ## everything that CI does: check, all tests with real servers, the race detector
	@bad=; make --no-print-directory check || bad=1; \
	.bin/tally -vet=off -count=1 -timeout=10m -- $(subst $(space),$(comma),$(strip $(addsuffix /...,$(modules)))) \
		then GOWORK=off -vet=off -count=1 -- tools/... \
		then -vet=off -count=1 -timeout=20m -- e2e \
		then -vet=off -count=1 -timeout=10m -- e2e/comingfrom,e2e/edge,e2e/nginxtest,e2e/pgtest,e2e/redistest e2e/flashsale \
		then -vet=off -race -count=1 -timeout=10m -- $(subst $(space),$(comma),$(strip $(racy))) \
		then -vet=off -race -count=1 -timeout=15m -run=TestRedis -- e2e || bad=1; \
	if [ -n "$$bad" ]; then echo "make test: FAILED (see above; make check comes first)"; exit 1; fi

.PHONY: need
need: ## install the servers and tools that the tests run, or say what is missing
	@tools/need.sh git:git curl:curl gcc:gcc,libc6-dev redis-server:redis-server redis-cli:redis-tools nginx:nginx-light \
		/usr/lib/nginx/modules/ngx_http_lua_module.so:libnginx-mod-http-lua /usr/share/lua/5.1/resty/core.lua:lua-resty-core \
		/usr/share/lua/5.1/nginx/redis.lua:lua-nginx-redis /usr/share/lua/5.1/cjson/util.lua:lua-cjson \
		'/usr/lib/postgresql/*/bin/initdb:postgresql' wrk:wrk chromium:chromium caddy:caddy

.PHONY: check
# e2e goes first, alone: it has nearly all dependencies, and two that meet them for the first
# time at once would compile and read each of them twice.
check: .bin/staticcheck ## gofmt, vet, staticcheck and tidy go.mod files, of every module by itself
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not gofmt-ed:" $$unformatted; exit 1; fi
	@one=' \
		if said=$$(cd {} && export GOWORK=off && { go mod tidy -diff && go vet ./... && $(CURDIR)/.bin/staticcheck -checks all ./...; } 2>&1); \
		then echo "check {}"; else printf "%s\n" "check {}: FAILED" "$$said"; exit 1; fi'; \
	bad=; echo ./e2e | xargs -I {} $(SHELL) -c "$$one" || bad=1; \
	printf '%s\n' ./flashsale $(filter-out ./flashsale,$(modules)) ./tools | xargs -P 2 -I {} $(SHELL) -c "$$one" || bad=1; \
	[ -z "$$bad" ]

.PHONY: lint
lint: ## golangci-lint with .golangci.yml, beyond what check asks (builds it: minutes, once)
	@command -v golangci-lint >/dev/null || [ -x .bin/golangci-lint ] || \
		{ echo "building golangci-lint"; GOBIN=$(CURDIR)/.bin GOWORK=off go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0; }
	@bad=; for m in $(modules) ./e2e ./tools; do \
		echo "lint $$m"; \
		(cd $$m && GOWORK=off PATH="$(CURDIR)/.bin:$$PATH" golangci-lint run -c $(CURDIR)/.golangci.yml ./...) || bad="$$bad $$m"; \
	done; if [ -n "$$bad" ]; then echo "lint failed:$$bad"; exit 1; fi

.PHONY: race
race: need .bin/tally ## every module under the race detector
	@.bin/tally -race -count=1 -timeout=30m -- $(addsuffix /...,$(modules)) then -race -count=1 -timeout=30m -p=1 -- e2e/...

.PHONY: fuzz
fuzz: ## every fuzzer for FUZZTIME (5s) each
	@for f in $$(grep -rlE '^func Fuzz' --include='*_test.go' .); do \
		for name in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' $$f); do \
			echo "fuzz $${f%/*} $$name"; \
			(cd $${f%/*} && go test -run='^$$' -fuzz="^$$name\$$" -fuzztime=$(FUZZTIME) .) || exit 1; \
		done; \
	done

.PHONY: bench
bench: ## every benchmark; BENCH=regexp and BENCHTIME choose
	@for m in $(modules); do \
		(cd $$m && go test -run='^$$' -bench='$(BENCH)' -benchtime=$(BENCHTIME) -benchmem ./... | { grep -vE 'no test files|^(PASS|ok) ' || true; }) || exit 1; \
	done

.PHONY: generate
generate: ## run go generate everywhere
	@for m in $(modules) ./e2e; do (cd $$m && go generate ./...) || exit 1; done

.PHONY: cover
cover: need ## statement coverage of each module by its own tests, and by those of e2e; profiles in cover/
	@mkdir -p cover; for m in . ./cmd/weir ./weirfile; do \
		profile=$(CURDIR)/cover/$$(echo $$m | tr -c 'a-z\n' _).out; \
		(cd $$m && go test -coverpkg=./... -coverprofile=$$profile ./... >/dev/null && \
			echo "$$m: $$(go tool cover -func=$$profile | tail -n 1 | awk '{ print $$NF }')") || exit 1; \
	done
	@cd e2e && go test -p=1 -coverpkg=$(SHARED) -coverprofile=../cover/e2e.out ./... >/dev/null && \
		echo "redisstore and contrib, by e2e: $$(go tool cover -func=../cover/e2e.out | tail -n 1 | awk '{ print $$NF }')"

.PHONY: test-long
test-long: need ## the differential run at full length: function, memory and Redis against the model
	@WEIR_LONG=1 go test -count=1 -timeout=120m -v -run=Diff ./storetest
	@cd e2e && go test -count=1 -timeout=120m -v -run=Conformance . -args -redis.decisions=$(REDIS)

.PHONY: traffic
traffic: need ## real traffic: nginx behind the gateway, wrk in front, for TRAFFIC (60s) each; then a file that changes meanwhile
	@cd e2e && WEIR_TRAFFIC=$(TRAFFIC) go test -count=1 -timeout=30m -v -run='^TestTraffic(Memory|Redis|Cluster)|^TestReloadUnderLoad' .

.PHONY: flashsale
flashsale: need ## the flash sale at full counts: a million commands, kills, faults and load (more than an hour)
	@mkdir -p cover
	@cd flashsale && FLASHSALE_LONG=1 go test -count=1 -timeout=60m -p=1 -v ./...
	@cd e2e && FLASHSALE_LONG=1 FLASHSALE_TABLE=$(CURDIR)/cover/flashsale-load.md go test -count=1 -timeout=120m -p=1 -v ./flashsale

.PHONY: soak
soak: need ## sales with faults in their middle for SOAK (60m), one after the other
	@cd e2e && FLASHSALE_SOAK=$(SOAK) go test -count=1 -timeout=180m -v -run='^TestSoak$$' ./flashsale

.bin/tally: $(wildcard tools/tally/*.go) tools/go.mod
	@mkdir -p .bin && cd tools && GOWORK=off go build -o ../.bin/tally ./tally

.bin/staticcheck: tools/go.mod tools/go.sum
	@echo "building staticcheck"
	@mkdir -p .bin && cd tools && GOBIN=$(CURDIR)/.bin GOWORK=off go install honnef.co/go/tools/cmd/staticcheck && touch $(CURDIR)/.bin/staticcheck

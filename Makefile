# dshx. Bare "make" lists the targets. Every target installs what it needs and lacks
# (scripts/bootstrap.sh); DSHX_INSTALL=no forbids that.

.DEFAULT_GOAL := help
SHELL := /bin/sh

# What can be set on the command line:
ARGS     ?=# more arguments for go test, as in make test ARGS="-run Escape -v"
PKGS     ?= ./...
FUZZTIME ?= 10s# for each fuzz target
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# The one place where the versions of tools that are no dependency of the code stand.
# They are built from source by "go run", so they need no installation.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0

# What runs goroutines against each other or serves the kernel from several threads.
RACE_PKGS ?= ./sandboxpolicy/... ./commandrules/... ./approval/... ./sessionlog/... ./sandbox/... ./pipeline/... ./jobs/... ./serve/... ./tools/... ./internal/... ./cmd/...

# go refuses to work without a folder for its caches, and service accounts have none.
ifneq ($(shell test -d "$$HOME" && test -w "$$HOME" && echo usable),usable)
export HOME := $(CURDIR)/.cache/home
$(shell mkdir -p $(HOME))
endif
# A clone that belongs to somebody else makes git, and with it the version stamp, fail.
export GOFLAGS := $(strip $(filter-out -buildvcs=false,$(GOFLAGS)) -buildvcs=false)

BUILD = CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X github.com/dshx/dshx/internal/version.Stamp=$(VERSION)"

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | awk -F '\t' '{ printf "  make %-12s %s\n", $$1, $$2 }'

.PHONY: build
build: ## build bin/dshx and bin/dshx-mcp: static, without cgo
	@scripts/bootstrap.sh build
	$(BUILD) -o bin/ ./cmd/...

.PHONY: demo
demo: ## watch real builds and real attacks run under a policy
	@scripts/bootstrap.sh demo
	@$(MAKE) --no-print-directory build
	@demo/run.sh

.PHONY: test
test: ## all tests, as root and as an ordinary user where you are root
	@scripts/bootstrap.sh test
	@$(MAKE) --no-print-directory build
	@PKGS="$(PKGS)" scripts/test.sh $(ARGS)

.PHONY: integration
integration: ## only the black-box tests of the built program
	@$(MAKE) --no-print-directory test PKGS=./integration/...

.PHONY: mcp-clients
mcp-clients: ## install the MCP clients of others that the tests use, from npm
	@scripts/mcp-clients.sh

.PHONY: race
race: ## the tests under the race detector
	@scripts/bootstrap.sh race
	go run ./internal/testrun -name race -- -race -count=1 $(RACE_PKGS) $(ARGS)

.PHONY: libseccomp
libseccomp: ## compare the generated filters with libseccomp's (cgo)
	@scripts/bootstrap.sh libseccomp
	@scripts/libseccomp.sh $(ARGS)

.PHONY: lint
lint: ## gofmt, go vet for amd64 and arm64, staticcheck, shell syntax
	@scripts/bootstrap.sh lint
	@STATICCHECK=$(STATICCHECK) scripts/lint.sh

.PHONY: vuln
vuln: ## known vulnerabilities in what the program calls
	@scripts/bootstrap.sh build
	@GOVULNCHECK=$(GOVULNCHECK) scripts/vuln.sh

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (10s)
	@scripts/bootstrap.sh build
	@FUZZTIME="$(FUZZTIME)" scripts/fuzz.sh

.PHONY: bench
bench: ## measure against bare commands and other sandboxes; prints docs/benchmarks.md's tables
	@scripts/bootstrap.sh bench
	@$(MAKE) --no-print-directory build
	go run ./bench $(ARGS)

.PHONY: generate
generate: ## write generated files again: filters, goldens
	@scripts/bootstrap.sh build
	go generate ./...
	go test -count=1 ./internal/deps ./cmd/dshx -update
	go test -count=1 -run Golden ./serve/mcp ./cmd/dshx-mcp -update
	go test -count=1 -run '^TestSchemas?_' ./tools/bash ./tools/jobs -update
	go test -count=1 -run '^TestDocs_' ./serve/editors -update

.PHONY: golden
golden: generate

.PHONY: ci
ci: ## everything that .ci/run checks
	@bash .ci/run

.PHONY: clean
clean: ## remove what the targets made
	rm -rf bin dist
	@test ! -d .cache || { chmod -R u+w .cache && rm -rf .cache; }

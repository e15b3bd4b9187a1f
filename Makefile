# Every target works on a bare clone with Go alone, except chaos, which builds the
# nested module of the stock client.

GO       ?= go
SEEDS    ?= 1..20
SEED     ?= 1
DRILL    ?= A3
FUZZTIME ?= 20s

.PHONY: test race drills live sweep replay bench fuzz tidy chaos maelstrom mutants

test:
	$(GO) test ./...

race:
	$(GO) test -race ./node/host/... ./storage/vfs
	$(GO) test -race ./storage -crash-states 1
	$(GO) test -race -skip Calibration ./chaos/maelstrom
	$(GO) test -race -skip 'A1|A4|IdleRejoin|Assertions' ./chaos/live

drills:
	$(GO) run ./cmd/drill run --all

live:
	$(GO) run ./cmd/drill live --all --jobs 2

sweep:
	$(GO) run ./cmd/drill sweep --seeds $(SEEDS)

replay:
	$(GO) run ./cmd/drill replay $(DRILL):$(SEED)

bench:
	$(GO) run ./cmd/drill bench --quick

mutants:
	$(GO) run ./cmd/drill mutants

fuzz:
	FUZZTIME=$(FUZZTIME) bash .ci/fuzz

tidy:
	$(GO) vet ./...
	$(GO) test -count=1 ./internal/tidy

chaos:
	bash .ci/chaos

maelstrom:
	bash .ci/maelstrom

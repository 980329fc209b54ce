# `make test` and `make demo` do everything from a fresh clone on Debian 12; see scripts/setup.sh.

.DEFAULT_GOAL := help
JOBS ?= $(shell nproc)
PYTHON := .venv/bin/python

.PHONY: help setup build sanitized test demo bench soak fuzz lint format clean

help:  ## Show the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup:  ## Install packages, .venv and torch where they are missing
	@scripts/setup.sh

build: setup build/release/build.ninja  ## Build, and install into .venv
	@cmake --build build/release -j $(JOBS)
	@cmake --install build/release --prefix .venv >build/release/install.log

sanitized: setup build/asan/build.ninja  ## Build the torch-free part and the fuzz targets with ASan
	@cmake --build build/asan -j $(JOBS)

test: build  ## Run all tests, a minute of fuzzing and the linters
	@scripts/test.sh

demo: build  ## Run the demonstration
	@$(PYTHON) examples/demo.py

bench: build  ## Measure against PyTorch, side by side
	@$(PYTHON) benchmarks/run.py

soak: build  ## Train for SOAK_MINUTES (10) while machines and the server are killed
	@$(PYTHON) benchmarks/soak_churn.py --minutes $(or $(SOAK_MINUTES),10)

fuzz: sanitized  ## Fuzz for FUZZ_SECONDS (600) in all, or FUZZ_RUNS runs of each target
	@scripts/fuzz.sh

lint: setup build/release/build.ninja build/asan/build.ninja  ## Check layout and names
	@scripts/lint.sh

format: setup  ## Lay out the code
	@scripts/lint.sh --fix

clean:  ## Remove what was built; .venv stays
	@rm -rf build

build/%/build.ninja: CMakePresets.json | setup
	@cmake --preset $*
	@touch $@

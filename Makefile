# The commands of this repository. The work is in scripts/; `make help` lists them.
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := build
# ccache hits across clones: paths relative to the tree, and the build folder not part of the key.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
.PHONY: help setup configure build serve check check-full bench golden sim clean

help:
	@echo 'make                       set up what is missing and build build/release/kvern'
	@echo 'make serve [ARGS="..."]    build and serve the default model; ARGS go to kvern serve'
	@echo 'make check                 every kind of test once, at a small size'
	@echo 'make check-full [PART=p]   the same at full size; results are kept per commit, so a stopped run goes on'
	@echo 'make bench                 every benchmark, one table'
	@echo 'make golden                rewrite golden files; review the change with git diff'
	@echo 'make sim [SEED=n]          replay one seed of the simulation and print what happens; without SEED run 200'
	@echo 'make clean                 remove build/ (what was fetched stays in the cache folder)'

setup:
	@scripts/setup

configure: setup
	@test -f build/release/build.ninja || cmake --preset release

build: configure
	@cmake --build --preset release --target kvern
	@echo 'built: build/release/kvern'

serve: build
	@exec build/release/kvern serve $(ARGS)

check:
	@scripts/check

check-full:
	@scripts/check --full $(PART)

bench: build
	@scripts/setup --peers
	@scripts/bench

golden: configure
	@scripts/golden

sim: configure
	@cmake --build --preset release --target swarm
	@build/release/src/sim/swarm $(if $(SEED),--seed $(SEED))

clean:
	rm -rf build

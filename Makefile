# The front door for people: each target installs what is missing (saying so first), builds, and does
# its job. CMake is underneath: CMakePresets.json has the other builds (cmake --preset dev, ...).

BUILD := build/release
JOBS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
ARGS ?=

# Compiled objects are shared between clones and checkouts of this project.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

# CI refuses warnings; a newer compiler than ours must not stop a user. What is wrong goes to stderr.
CONFIGURE := cmake --preset release --log-level=WARNING -DWERROR=$(if $(CI),ON,OFF) \
	-DFAK_CUDA=$(if $(filter-out 0,$(CUDA)),ON,OFF) >/dev/null

.PHONY: help run build test bench format deep deps
help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

run: build  ## build fak and serve the default model on 127.0.0.1:8000 (options: ARGS="...")
	@$(BUILD)/fak serve $(ARGS)

build: deps  ## the release program, build/release/fak (CUDA=1: and libfak_cuda.so beside it)
	@$(CONFIGURE)
	@cmake --build $(BUILD) --target fak $(if $(filter-out 0,$(CUDA)),fak_cuda) -j $(JOBS)

test:  ## release build and all its tests: unit, golden, SDK, style of the code (ctest options: ARGS="...")
	@tools/install-deps --tests
	@$(CONFIGURE)
	@cmake --build $(BUILD) -j $(JOBS)
	@ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -j $(JOBS) $(ARGS)

bench: build  ## speed of the default model on this machine (options: ARGS="...")
	@$(BUILD)/fak bench model smollm2 $(ARGS)

format:  ## lay out all C++ files with clang-format-19
	@tools/install-deps --tools
	@tools/format

deep:  ## the long checks: sanitizers, clang-tidy, other builds, a fresh machine (some: ARGS="tsan http"), 77: skipped some
	@tools/install-deps --tools
	@tools/deep $(ARGS)

deps:
	@tools/install-deps

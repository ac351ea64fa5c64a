# SPDX-License-Identifier: MIT
# The front door to the Meson build. `make help` lists the targets.
BUILD  ?= build
prefix ?= /usr/local
# Extra arguments for `meson setup`, e.g. MESON_FLAGS=-Dwerror=true
MESON_FLAGS ?=
NINJA  ?= ninja
JOBS   ?= $(shell nproc)

all: $(BUILD)/build.ninja ## build berth, berth-agent, libberth.so and libberth.a in build/
	$(NINJA) -j$(JOBS) -C $(BUILD)

# When it was removed, the folder is configured anew with the options that it had.
$(BUILD)/build.ninja:
	meson setup $(if $(wildcard $(BUILD)/meson-private/coredata.dat),--reconfigure) $(BUILD) \
		--prefix=$(prefix) $(MESON_FLAGS)

deps: ## install what building and testing need (Debian; root or sudo)
	tools/install-deps check $(BUILD)/build.ninja

check: deps ## run every test
	$(MAKE) all
	tools/run-tests $(BUILD)

demo: ## install what is missing and run the main job on the example
	tools/install-deps demo $(BUILD)/build.ninja
	$(MAKE) all
	examples/demo $(BUILD)

bench: ## print the table of numbers beside their yardsticks
	tools/install-deps bench $(BUILD)/build.ninja
	$(MAKE) all
	$(NINJA) -C $(BUILD) bench
	$(NINJA) -C $(BUILD) bench-isolated

install: $(BUILD)/build.ninja ## install; honours DESTDIR and prefix
	meson configure $(BUILD) -Dprefix=$(prefix)
	$(MAKE) all
	DESTDIR="$(DESTDIR)" meson install -C $(BUILD) --no-rebuild --quiet

asan: ## the whole suite under AddressSanitizer and UBSan
	test -f build-asan/build.ninja || meson setup build-asan \
		-Db_sanitize=address,undefined -Db_lundef=false $(MESON_FLAGS)
	$(NINJA) -j$(JOBS) -C build-asan
	ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1 \
	UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
		tools/run-tests build-asan

fuzz: ## every fuzz target with libFuzzer, FUZZ_SECONDS each (default 60)
	test -f build-fuzz/build.ninja || CC=clang meson setup build-fuzz -Dfuzz=true \
		-Db_sanitize=address,undefined -Db_lundef=false -Daarch64=disabled $(MESON_FLAGS)
	$(NINJA) -j$(JOBS) -C build-fuzz
	tools/run-fuzz build-fuzz $(or $(FUZZ_SECONDS),60)

lint: ## formatting, shellcheck, codespell, cppcheck, clang-tidy
	tools/lint

format: ## rewrite the sources with clang-format
	git ls-files '*.c' '*.h' | xargs clang-format -i

clean: ## remove the build folders
	rm -rf $(BUILD) build-asan build-fuzz build-lint

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

.PHONY: all deps check demo bench install asan fuzz lint format clean help

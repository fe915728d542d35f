# Two commands do everything on a fresh machine: `make demo` and `make test`.
# Prerequisites: Python >= 3.11, and Java >= 17 for the parts that run on Spark and Kafka.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# Importing nbval takes three seconds in every process, and only the runs of notebooks that tests start need it; no test
# needs anyio.
PYTEST := $(BIN)/python -m pytest -p no:nbval -p no:anyio

export PYTHONHASHSEED ?= 0
export PYSPARK_PYTHON := $(abspath $(BIN)/python)
export PYSPARK_DRIVER_PYTHON := $(abspath $(BIN)/python)
# Images of containers often set it; without compiled files, each process of a suite compiles what it imports.
unexport PYTHONDONTWRITEBYTECODE

# Which tests of notebooks run: "notebook and not slow and not spark" leaves out those that start Spark or a broker.
NOTEBOOKS ?= notebook and not slow

# Three files of tests at a time, for suites that wait for brokers, Spark or browsers half of their time; in the order of
# their names, because by default files with few tests, which may be the longest, come last.
BY_THREE := -n 3 --dist loadfile --no-loadscope-reorder

SOURCES := kstreamnb tests .site

MEASURE := --cov --cov-branch --cov-report= --cov-report=json:.artefacts/coverage.json

.DEFAULT_GOAL := help
.PHONY: help site test-site test-install classes crashes chromium postgres prometheus demo test check lint format types golden application soak test-spark test-spark-versions test-kafka test-kafka-versions test-java test-notebook test-notebooks test-binder test-browser test-all bench lab lock coverage clean

help: ## Say what each target does
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "kstreamnb needs Python 3.11 or later: make PYTHON=python3.12 …" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Setting up $(VENV) (once; a few minutes on a slow line)"
	@# pip makes a wheel of pyspark's source. Its jars are compressed already: compressing them again takes 20 s.
	@printf '[bdist_wheel]\ncompression = stored\n' > $(VENV)/wheels.cfg
	@# Not compiled: Python compiles what it imports, which is less than half, and pip uses one core.
	@DIST_EXTRA_CONFIG=$(abspath $(VENV))/wheels.cfg $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/kstreamnb archive-classes || echo "Spark will start more slowly"
	@touch $@

demo: $(READY) ## Set up, then run the whole path on real data: build, see, replay, Spark, Kafka
	@$(BIN)/kstreamnb demo

application: $(READY) $(if $(filter cdc,$(NAME)),postgres) ## Run an application of notebooks/applications with a local broker: NAME=orders SECONDS=60 (needs Java 17)
	@$(BIN)/python notebooks/applications/run.py $(or $(NAME),orders) $(if $(SECONDS),--seconds $(SECONDS))

# One process more than cores: a third of the time a test waits for a process or a timeout.
ONE_MORE = -n $$(($$($(BIN)/python -c "import os; print(os.cpu_count())") + 1))
test: $(READY) ## Set up, then run the default tests (no JVM, no network); COVERAGE=95: measure the spine's branches, too
	$(PYTEST) $(ONE_MORE) --dist loadfile $(if $(COVERAGE),$(MEASURE))
	$(if $(COVERAGE),$(BIN)/python -m tests.branches .artefacts/coverage.json $(COVERAGE))

check: format lint types test ## All that must hold before a commit

lint: $(READY) ## Style rules, import contracts and structure
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/lint-imports
	$(BIN)/python -m tests.structure

format: $(READY) ## Format the code
	$(BIN)/ruff format $(SOURCES)

types: $(READY) ## Static types, and what mypy and basedpyright say about typical programs
	$(BIN)/mypy
	$(PYTEST) tests/typing -m slow

golden: $(READY) ## All golden vectors of the real Kafka Streams, with the runner's figures
	$(BIN)/python -m tests.golden.run tests/golden/vectors

test-spark: $(READY) ## Tests on Spark (needs Java 17)
	$(PYTEST) tests/spark tests/semantics kstreamnb/spark kstreamnb/tools/parity.py -m spark $(BY_THREE)

test-kafka: $(READY) postgres prometheus ## Tests on a real Kafka broker (needs Java 17)
	$(PYTEST) tests/kafka kstreamnb/kafka kstreamnb/spark kstreamnb/tools/parity.py -m "kafka and not slow" $(BY_THREE)

test-spark-versions: $(READY) ## Essential tests on older versions of Spark: VERSIONS="4.1.0 4.2.0"
	$(BIN)/python -m tests.spark_versions $(VERSIONS)

test-kafka-versions: $(READY) ## Tests on brokers of other versions of Kafka: VERSIONS="2.8.2 4.0.0"
	$(BIN)/python -m tests.kafka.versions $(VERSIONS)

test-java: $(READY) ## The same topologies on Kafka Streams itself, in the driver and on Spark (needs Maven and a JDK)
	mvn -q -B -f tests/java/pom.xml package
	$(PYTEST) tests/java -m java -n0 -s

test-cluster: $(READY) ## Deployments on a standalone cluster, YARN, HDFS and an S3 server, under kills (needs Java 17): CLUSTER=yarn
	$(PYTEST) tests/cluster -m "spark or kafka" -k "$(CLUSTER)"

crashes: $(READY) ## Kill deployments at every point: RUNS=20 kills for each cell of the matrix
	$(BIN)/python -m tests.kafka.crashes --runs $(or $(RUNS),1)
	$(BIN)/python -m tests.kafka.replicated_crashes --runs $(or $(RUNS),1)
	$(BIN)/python -m tests.cluster.crashes --runs $(or $(RUNS),1)
	$(PYTEST) tests/kafka/test_slow_broker.py tests/kafka/test_quotas.py tests/kafka/test_interrupts.py -m "kafka and slow"

soak: $(READY) ## Run a deployment, a notebook and a test driver for MINUTES=5, and fail if one keeps more and more (needs Java 17)
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),5)

test-notebook: $(READY) ## Execute and compare the notebooks; as HTML they go to .artefacts/notebooks
	$(PYTEST) tests/notebook -m "$(NOTEBOOKS)" -n 2 --dist worksteal
	$(BIN)/jupyter nbconvert --log-level=ERROR --to html --output-dir .artefacts/notebooks notebooks/*.ipynb notebooks/*/*.ipynb notebooks/*/*/*.ipynb

test-notebooks: test-notebook

test-binder: $(READY) ## Build an environment from the files of binder/ and run the course in it
	$(BIN)/python -m tests.notebook.binder $(BINDER)

# Debian's Chromium, installed where that is allowed; elsewhere the tests are skipped and say what is missing.
chromium:
	@for name in "$$CHROMIUM" chromium chromium-browser google-chrome; do command -v "$$name" >/dev/null && exit 0; done; \
	{ test "$$(id -u)" = 0 && command -v apt-get >/dev/null; } || exit 0; echo "Installing Chromium"; \
	{ apt-get install -y chromium || { apt-get update && apt-get install -y chromium; }; } >/dev/null 2>&1 || true

test-browser: $(READY) chromium ## JupyterLab in headless Chromium; pictures go to .artefacts/browser
	$(PYTEST) tests/browser -m "browser and not slow" --durations=5 $(BY_THREE)

# Debian's PostgreSQL with wal2json, and Prometheus, installed where that is allowed; elsewhere their tests are skipped and
# say what is missing.
APT = apt-get -o DPkg::Lock::Timeout=300
postgres:
	@ls /usr/lib/postgresql/*/lib/wal2json.so >/dev/null 2>&1 && exit 0; \
	{ test "$$(id -u)" = 0 && command -v apt-get >/dev/null; } || exit 0; echo "Installing PostgreSQL"; \
	{ { $(APT) install -y postgresql || { $(APT) update && $(APT) install -y postgresql; }; } && \
	$(APT) install -y "postgresql-$$(ls /usr/lib/postgresql | tail -1)-wal2json"; } >/dev/null 2>&1 || true

prometheus:
	@command -v prometheus >/dev/null && exit 0; \
	{ test "$$(id -u)" = 0 && command -v apt-get >/dev/null; } || exit 0; echo "Installing Prometheus"; \
	{ $(APT) install -y --no-install-recommends prometheus || \
	{ $(APT) update && $(APT) install -y --no-install-recommends prometheus; }; } >/dev/null 2>&1 || true

site: $(READY) ## Build the documentation, with the course in the browser (needs npm), into .artefacts/site/html
	$(BIN)/python .site/build.py $(SITE_OPTIONS)

test-site: site chromium ## Look for broken links and barriers on the pages, and run chapters in headless Chromium
	SITE=.artefacts/site/html $(PYTEST) tests/browser/test_site.py $(if $(findstring --without-course,$(SITE_OPTIONS)),,tests/browser/test_browser_course.py) -m browser -s

test-install: $(READY) ## Build wheel and sdist, check them, and try EXTRAS="base kafka", all extras, the oldest versions (EXTRAS=--lowest), or the newest (--newest)
	$(BIN)/python -m tests.install $(EXTRAS)

test-all: test test-spark test-kafka test-cluster test-notebook test-browser ## Every suite

coverage: ## The default tests, with the branch coverage of the spine by package; fails below 95 %
	@$(MAKE) --no-print-directory test COVERAGE=95

classes: $(READY) ## Compile the Java sources of the package (needs a JDK); the class files are checked in
	$(BIN)/python -m tests.java_classes

bench: $(READY) ## Throughput of the driver and preview and import times
	$(BIN)/python -m tests.bench.driver
	$(BIN)/python -m tests.bench.notebook

lab: $(READY) ## Open the notebooks in JupyterLab
	@$(BIN)/jupyter trust notebooks/*.ipynb notebooks/*/*.ipynb notebooks/*/*/*.ipynb >/dev/null  # else JupyterLab shows no picture before a run
	$(BIN)/jupyter lab notebooks

# The lock leaves out extras and markers from pyproject.toml, because the project is installed without its dependencies. It
# keeps those of other packages, because pip looks for them when it builds for Binder.
lock: ## Pin the versions that the set-up installs; run it with the oldest Python, 3.11.0, or they may need a later one
	$(BIN)/pip-compile --quiet --no-strip-extras --generate-hashes --allow-unsafe --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-annotate --no-header --extra dev --output-file $(READY).lock pyproject.toml
	sed -E "/^(kstreamnb|#|$$)/d; s/^($$(grep -oE '"[a-z-]+\[' pyproject.toml | tr -d '"[' | paste -sd'|'))\[[^]]*\](==[^ ]+)[^\\]*/\1\2 /" $(READY).lock > requirements.lock && rm $(READY).lock

clean: ## Remove everything that was made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .artefacts spark-warehouse

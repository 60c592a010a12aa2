# Two commands suffice on a machine with Python 3.11+ and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: demo test test-kernels lint bench validate validate-fast audit docs clean

# One stamp for everything: the environment is rebuilt when its description changes.
$(INSTALLED): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("dpstats needs Python 3.11 or newer; set PYTHON=...") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -e '.[dev,plot]'
	touch $@

demo: $(INSTALLED)
	$(BIN)/python -m dpstats demo --out demo-output

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy dpstats

test: lint
	$(BIN)/python -m pytest -q -n 2

# The numerical tests once more, with numpy's and BLAS's loops for another processor: a minute.
test-kernels: $(INSTALLED)
	$(BIN)/python tests/other_kernels.py -n 2

bench: $(INSTALLED)
	$(BIN)/python validation/benchmarks/mean.py
	$(BIN)/python validation/benchmarks/startup.py
	$(BIN)/python validation/benchmarks/accounting.py
	$(BIN)/python validation/benchmarks/mechanisms.py
	$(BIN)/python validation/benchmarks/adaptive_sparse.py
	$(BIN)/python validation/benchmarks/identity.py
	$(BIN)/python validation/benchmarks/simulation.py

validate: $(INSTALLED)
	$(BIN)/python validation/mean_risk_and_coverage.py
	$(BIN)/python validation/run_all.py
	$(BIN)/python validation/mean_comparison.py --replications 100
	$(BIN)/python validation/sparse_comparison.py --replications 400
	$(BIN)/python validation/sparse_real.py

validate-fast: $(INSTALLED)
	$(BIN)/python validation/run_all.py --fast

audit: $(INSTALLED)
	$(BIN)/python validation/audit.py

docs: $(INSTALLED)
	$(BIN)/python -m pytest -q --doctest-modules dpstats tests/test_docs.py

clean:
	rm -rf $(VENV) build dist demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis

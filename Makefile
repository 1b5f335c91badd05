# Needs Python 3.11 or newer and make. Everything else goes into .venv and var.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
UV_VERSION := 0.13.9
# One more than processors: much of the suite waits for processes that it has killed.
WORKERS ?= 3
BIN := .venv/bin
PY := $(BIN)/python
OFFLINE := DJANGO_SETTINGS_MODULE=tests.offline

export UV_LINK_MODE ?= copy
export PYTHONUNBUFFERED := 1
# Whoever starts forty processes compiles everything once, whatever an image says.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: up test test-long check requirements bench install clean
.DEFAULT_GOAL := up

up: install  ## Everything on this machine, with a live example: OPTIONS="--no-example --port 8080"
	@exec $(PY) manage.py up $(OPTIONS)

test: install  ## The bounded suite
	@exec $(PY) -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder $(TESTS)

test-long: install  ## The rest: fuzzing, chaos, peers
	@exec $(PY) -m pytest -m "long or hypothesis" --hypothesis-profile whole $(TESTS)

check: install  ## Everything that needs no server
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo
	$(OFFLINE) $(PY) -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run
	$(OFFLINE) $(PY) manage.py check --deploy --fail-level WARNING
	$(PY) -m tests.templates

requirements: install  ## Every requirement and the tests that show it
	@$(PY) -m tests.requirements

bench: install  ## First figures, as ratios within one run
	@VIRTUAL_ENV= $(BIN)/uv sync --quiet --frozen --inexact --group bench --python $(PY)
	@exec $(PY) -m benchmarks $(OPTIONS)

install: .venv/installed

# The stamp is newer than the lock file, so a second run costs nothing.
.venv/installed: pyproject.toml client/pyproject.toml uv.lock
	@test -n "$(PYTHON)" || { echo "counterfoil: Python 3.11 or newer is needed." >&2; exit 2; }
	@test -x $(PY) || $(PYTHON) -m venv .venv || \
		{ echo "counterfoil: $(PYTHON) cannot make a virtual environment; install its venv module." >&2; exit 2; }
	@test -x $(BIN)/uv || $(PY) -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION) || \
		{ echo "counterfoil: uv could not be fetched; see the message above." >&2; exit 2; }
	@VIRTUAL_ENV= $(BIN)/uv sync --quiet --frozen --inexact --python $(PY)
	@touch $@

clean:  ## Remove caches; data under var/ stays
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist

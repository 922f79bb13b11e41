# One word a target; each sets up what it needs and may be run again at any time.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Without compiled files every process compiles what it imports: the tests start hundreds.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run demo docs release test check judges cover fix rules recordings clients bench compare soak faults fuzz
.DEFAULT_GOAL := test

$(BIN)/uv:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv>=0.8,<1"

$(READY): pyproject.toml $(BIN)/uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --editable ".[all]" --group dev
	touch $@

# Start the product.
run: $(READY)
	$(BIN)/python -m multi_llm_chat serve --install-model

# Two speakers and a tool on the embedded model.
demo: $(READY)
	$(BIN)/python -m multi_llm_chat.local.demo

# The documentation as a site, in site/.
docs: $(READY)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --group docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# What is published, in dist/: wheel, sdist, a check of their metadata, and a list of everything that the package installs.
release: $(READY)
	rm -rf dist
	$(BIN)/uv build --quiet --python $(BIN)/python --out-dir dist .
	$(BIN)/uv pip install --quiet --python $(BIN)/python --group release
	$(BIN)/twine check --strict dist/*
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .release
	$(BIN)/uv pip install --quiet --python .release/bin/python "$$(ls dist/*.whl)[all]"
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-file dist/sbom.json .release/bin/python
	rm -rf .release

# The tests, quick profile.
test: $(READY)
	$(BIN)/pytest -n auto -q

# Everything CI demands: format, lint, types, layers, tests.
check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(MAKE) test

# What make test leaves out: the cases outside its sample and what takes long; and what judges our requests, with more examples.
judges: $(READY)
	HYPOTHESIS_PROFILE=thorough $(BIN)/pytest -n auto -q -m "not fault" tests/oracles tests/protocol/test_never_a_400.py
	$(BIN)/pytest -n auto -q -m judge --ignore=tests/oracles

# The tests again, with branch coverage.
cover: $(READY)
	HYPOTHESIS_PROFILE=smoke $(BIN)/pytest -n auto -q -m "fault or judge or not fault" --cov --cov-report=term:skip-covered --cov-fail-under=90

# Mend what a tool can mend.
fix: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python -m tests.cli.reference
	$(BIN)/python -m tests.rules.page
	$(BIN)/python -m tests.docs.reference

# Recorded exchanges as judges of codecs and kit: make recordings RECORDINGS=folder-of-git-repositories; skipped without it.
recordings: $(READY)
	RECORDINGS="$(RECORDINGS)" $(BIN)/pytest -q tests/recordings

# Real coding agents from npm against mlc simulate, each in a network namespace with loopback only; skipped where npm is missing.
clients: $(READY)
	if command -v npm >/dev/null; then \
		npm install --silent --no-audit --no-fund --prefix .clients @anthropic-ai/claude-code @openai/codex @google/gemini-cli opencode-ai @qwen-code/qwen-code && \
		CLIENTS=.clients $(BIN)/pytest -q tests/clients; \
	else echo "npm is missing: the clients are skipped"; fi

# docs/rules.md from the rules as data.
rules: $(READY)
	$(BIN)/python -m tests.rules.page

# Speed: ours, the limit and every peer in its own environment (.peers/), then ours alone; figures to .bench/, their summary to docs/benchmarks.
bench: $(READY)
	$(BIN)/python -m bench.peers
	$(BIN)/python -m bench --page

# Correctness: broken conversations through every peer and through us, judged by the conformance kit; figures to .bench/, their summary to docs/benchmarks.
compare: $(READY)
	$(BIN)/python -m bench.compare

# Fifty streams at a time over faulty connections, for five minutes: nothing may be left behind.
soak: $(READY)
	$(BIN)/python -m tests.soak.soak

# The store and runs, long profile: processes that are killed everywhere, many at once, all examples.
faults: $(READY)
	$(BIN)/python -m tests.store.faults
	HYPOTHESIS_PROFILE=slow $(BIN)/pytest -n auto -q -m "fault or not fault" tests/store tests/runs

# The property tests of everything that reads outside data, for an hour: make fuzz SECONDS=600 for ten minutes.
fuzz: $(READY)
	$(BIN)/python -m tests.fuzz $(SECONDS)

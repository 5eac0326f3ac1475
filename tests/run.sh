#!/usr/bin/env bash
# Sets up .venv and runs every check: lint, types, tests.
#   bash tests/run.sh                     what every change has to pass
#   bash tests/run.sh --all               the long proofs as well
#   bash tests/run.sh [--all] ARGUMENTS   hands the arguments on to pytest
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

marker="not long"
if [ "${1:-}" = --all ]; then
  marker=""
  shift
fi

bash examples/setup.sh
export PATH="$PWD/.venv/bin:$PATH"

ruff check .
mypy
python -m pytest -m "$marker" --durations=10 "$@"

#!/usr/bin/env bash
# Sets up .venv and runs every check: lint, types, tests.
#   bash tests/run.sh                     what every change has to pass
#   bash tests/run.sh --all               the long proofs as well
#   bash tests/run.sh [--all] ARGUMENTS   hands the arguments on to pytest
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

kind=" and not long"
if [ "${1:-}" = --all ]; then
  kind=""
  shift
fi

bash examples/setup.sh
export PATH="$PWD/.venv/bin:$PATH"

# the tests are small: more threads would only wait for each other
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

ruff check .
ruff format --check --quiet .
mypy
none=0 # runs that were asked for no test, which pytest ends with 5
python -m pytest -m "alone$kind" "$@" || { [ $? = 5 ] && none=1; }
python -m pytest -m "not alone$kind" -n 2 --dist loadfile --durations=10 "$@" ||
  { [ $? = 5 ] && [ $none = 0 ]; }

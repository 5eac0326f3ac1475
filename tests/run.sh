#!/usr/bin/env bash
# Set up .venv and run every check: lint, format, types, tests.
#   bash tests/run.sh                     what every change must pass
#   bash tests/run.sh --all               the long tests as well
#   bash tests/run.sh [--all] ARGUMENTS   only the tests that pytest selects with ARGUMENTS
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

kind=" and not long"
# After 20 minutes a test has hung: print its stack and end pytest. Long tests have no limit.
limits=(-o faulthandler_timeout=1200 -o faulthandler_exit_on_timeout=true)
if [ "${1:-}" = --all ]; then
  kind="" limits=()
  shift
fi

bash examples/setup.sh
export PATH="$PWD/.venv/bin:$PATH"

unset PYTHONDONTWRITEBYTECODE # otherwise every process would recompile the checkout
# The tests are small: more threads would only wait for each other.
export OMP_NUM_THREADS=1

types=
if [ $# = 0 ]; then
  ruff check .
  ruff format --check --quiet .
  mypy & # in parallel with the tests that run alone
  types=$!
fi
no_tests=0 # the number of runs that selected no test, for which pytest exits with 5
alone=() # without arguments only the files that have such tests, because collecting all takes long
[ $# != 0 ] || mapfile -t alone < <(grep -rl --include='*.py' 'mark\.alone' tests)
python -m pytest -m "alone$kind" "${limits[@]}" "${alone[@]}" "$@" || { [ $? = 5 ] || exit 1; no_tests=1; }
[ -z "$types" ] || wait "$types"
# tests/conftest.py starts with the files that take longest, so workers finish together. Three keep two
# cores busy: many tests wait for a process or a timeout.
python -m pytest -m "not alone$kind" "${limits[@]}" -n 3 --max-worker-restart 0 --dist loadfile \
  --no-loadscope-reorder --durations=10 "$@" ||
  { [ $? = 5 ] && [ $no_tests = 0 ]; }

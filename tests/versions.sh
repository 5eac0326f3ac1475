#!/usr/bin/env bash
# Run every check except the long ones with several Pythons, and print a table of the results.
#   bash tests/versions.sh                                 every supported version
#   bash tests/versions.sh 3.10 3.11=2.10.0 /my/python     these; = is followed by the version of torch
#   bash tests/versions.sh 3.10 -- tests/fairseq_plugin    pass arguments to tests/run.sh
#   bash tests/versions.sh -- --all                        the long tests as well
# Needs a git checkout. Each Python gets a copy of this tree with its own .venv (about 7 GB) in WORK
# (default: runs/versions), next to the logs. To resume after an interruption, run it again: a row without failures
# is kept until a file of the tree changes. A Python that is not installed is skipped, unless the
# command names it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
trap 'exit 130' INT TERM # pytest handles interrupts itself; without this trap, bash would continue

WORK=${WORK:-runs/versions}
ALL="3.10 3.11 3.11=2.10.0 3.12 3.13"

pythons=()
missing=
while [ $# != 0 ] && [ "$1" != -- ]; do
  pythons+=("$1")
  shift
done
[ $# = 0 ] || shift # --
named=${pythons[*]-}
# shellcheck disable=SC2206 # each word is a Python
[ -n "$named" ] || pythons=($ALL)

# Print the path of a Python, given as a version, a command or a path. A pyenv shim runs only if its
# version is selected, so pyenv's directory of versions is searched too.
find_python() {
  local shims found
  shims=$(dirname "$(command -v "python$1" || echo /none/none)")
  for found in "$1" "python$1" "$shims"/../versions/"$1"*/bin/python; do
    "$found" -c 'import sys; print(sys.executable)' 2>/dev/null && return
  done
  return 1
}

# Sum the numbers before a word in the summary lines of pytest.
sum() {
  grep -E ' in [0-9.]+s' "$1" | grep -oE "[0-9]+ $2" | awk '{ n += $1 } END { print n + 0 }'
}

# row COPY LOG MINUTES STATUS: print a row of the table.
row() {
  local versions verdict=
  versions=$("$1/.venv/bin/python" -c '
import platform
from importlib.metadata import packages_distributions, version
fairseq = packages_distributions()["fairseq"][0]
print(platform.python_version(), version("torch"), f"{fairseq} {version(fairseq)}", sep=" | ")
' 2>/dev/null) || { echo "| **failed** to set up: see $2 |" && return; }
  [ "$4" = 0 ] || verdict="**failed**"
  echo "| $versions | $(sum "$2" passed) | $(($(sum "$2" failed) + $(sum "$2" error))) |" \
    "$(sum "$2" skipped) | $3 | $verdict |"
}

check() {
  local python=$1 torch=$2 name=$3 began=$SECONDS status=0
  shift 3
  local copy=$WORK/$name log=$WORK/$name.log
  mkdir -p "$copy"
  find "$copy" -mindepth 1 -maxdepth 1 ! -name .venv -exec rm -rf {} +
  git archive "$tree" | tar -xf - -C "$copy"
  rm -f "$WORK/$name.row"
  echo "versions.sh: $name: running, see $log" >&2
  env PYTHON="$python" ${torch:+TORCH="$torch"} bash "$copy/tests/run.sh" "$@" >"$log" 2>&1 ||
    status=$?
  case $status in 130 | 143) exit "$status" ;; esac # interrupted: no row
  [ "$status" = 0 ] || tail -n 15 "$log" >&2
  row "$copy" "$log" $(((SECONDS - began) / 60)) "$status" >"$WORK/$name.part"
  mv "$WORK/$name.part" "$WORK/$name.row"
}

mkdir -p "$WORK"
WORK=$(cd "$WORK" && pwd)
# Some tests look for real text next to the tree.
[ ! -d ../shared ] || ln -sfn "$(cd .. && pwd)/shared" "$WORK/shared"

# The tree that git would commit now, including new files; a separate index leaves the user's unchanged.
tree=$(export GIT_INDEX_FILE="$WORK/index" && rm -f "$WORK"/index* && git add --all && git write-tree)
table="| Python | torch | fairseq | passed | failed | skipped | minutes | |
| --- | --- | --- | --- | --- | --- | --- | --- |"
for wanted in "${pythons[@]}"; do
  version=${wanted%%=*}
  torch=${wanted#"$version"}
  if ! python=$(find_python "$version"); then
    echo "versions.sh: no Python $version is installed: skipped" >&2
    [ -z "$named" ] || missing=$version
    continue
  fi
  name=$("$python" -c 'import platform; print(platform.python_version())')${torch:+-torch${torch#=}}
  if [ "$(cat "$WORK/$name.tree" 2>/dev/null)" != "$tree $*" ] || [ ! -f "$WORK/$name.row" ]; then
    check "$python" "${torch#=}" "$name" "$@"
    grep -q '\*\*failed' "$WORK/$name.row" || echo "$tree $*" >"$WORK/$name.tree"
  fi
  table+=$'\n'$(cat "$WORK/$name.row")
done
echo "$table"
[[ -z $missing && $table != *"**failed**"* ]]

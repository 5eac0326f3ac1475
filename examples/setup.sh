#!/usr/bin/env bash
# Create .venv with torch, fairseq and the plugin. A second run updates the plugin in seconds,
# without a network; after an interruption it resumes.
#   bash examples/setup.sh
#   PYTHON=/path/to/python bash examples/setup.sh    use this Python, and its torch if 2.10 or later
#   TORCH=2.10.0 bash examples/setup.sh              install this torch in a new .venv (2.10 or later)
set -euo pipefail
[ $# = 0 ] || { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 2; }
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."

torch=${TORCH:-2.14.1}
if [ -n "${TORCH:-}" ]; then # to compare: 2.14 and 2.14.0+cpu are 2.14.0
  TORCH=${TORCH%%+*}
  [[ $TORCH == *.*.* ]] || TORCH=$TORCH.0
fi
VENV=$PWD/.venv
log=$VENV/setup.log

# User settings for other installations must not affect this one.
export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_PROGRESS_BAR=off
unset PIP_TARGET PIP_PREFIX PYTHONHOME

temporary=$(mktemp -d)
pulse=
trap 'rm -rf "$temporary"; [ -z "$pulse" ] || kill "$pulse" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM # pip handles interrupts itself; without this trap, bash would continue

usable='import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))'
has_torch='
import os, torch
from importlib.metadata import version
found, wanted = version("torch").split("+")[0], os.environ.get("TORCH")
raise SystemExit(found != wanted if wanted else [int(n) for n in found.split(".")[:2]] < [2, 10])'

say() { printf 'setup.sh: %s\n' "$*"; }

die() {
  printf 'setup.sh: error: %s\n' "$*" >&2
  exit 1
}

pip() { "$VENV/bin/python" -m pip "$@"; }

# Run a command with its output in the log, and print the log's last line now and then.
logged() {
  local status=0
  while sleep 20 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
    printf '  ... %d s: %s\n' "$SECONDS" "$(tail -n 1 "$log" | cut -c 1-100)"
  done 9>&- &
  pulse=$!
  "$@" >>"$log" 2>&1 </dev/null || status=$?
  kill "$pulse" 2>/dev/null || true
  wait "$pulse" 2>/dev/null || true # or bash would report it as terminated
  pulse=
  return "$status"
}

# Print the first usable Python, or python3 if none is usable. The user's default comes first, because it
# may have torch.
find_python() {
  local candidate
  for candidate in python3 python python3.12 python3.13 python3.11 python3.10; do
    "$candidate" -c "$usable" >/dev/null 2>&1 && echo "$candidate" && return
  done
  echo python3
}

# If TORCH is set, .venv must have this version or be created with it.
check_torch() {
  local found
  [ -n "${TORCH:-}" ] || return 0
  case $TORCH in
    [01].* | 2.[0-9].*) die "TORCH=$TORCH is too old: the plugin needs torch 2.10 or later" ;;
  esac
  if [ -x "$VENV/bin/fairseq-train" ]; then
    found=$(torch_version)
    [ "${found%%+*}" = "$TORCH" ] ||
      die ".venv has torch $found, but TORCH=$TORCH was given: remove .venv to create a new one"
  fi
}

# If PYTHON is set, .venv must be made from this Python or be created with it.
check_chosen_python() {
  [ -n "${PYTHON:-}" ] || return 0
  check_python "$PYTHON"
  local identity='import os, sys; print(os.path.realpath(sys.base_prefix), sys.version_info[:3])'
  [ "$("$PYTHON" -c "$identity")" = "$("$VENV/bin/python" -c "$identity")" ] ||
    die ".venv was created with a different Python than PYTHON=$PYTHON: remove .venv to create a new one"
}

# A .venv with packages that this script did not install is someone else's.
check_ownership() {
  local package
  [ ! -f "$log" ] || return 0
  for package in "$VENV"/lib/python3*/site-packages/*.dist-info; do
    case ${package##*/} in
      '*.dist-info' | pip-* | setuptools-*) ;;
      *) die ".venv has packages that setup.sh did not install: move or remove it, then run setup.sh again" ;;
    esac
  done
}

check_python() {
  local advice="install Python 3.10 to 3.13 or set PYTHON=/path/to/python" version
  "$1" -c "$usable" >/dev/null 2>&1 && return
  version=$("$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) ||
    die "cannot run $1 as Python: $advice"
  case $version in
    3.1[0-3].*) die "Python $version at $1 lacks venv or ensurepip: install them (on Debian and Ubuntu: apt install python${version%.*}-venv)" ;;
    [12].* | 3.[0-9].*) die "Python $version at $1 is too old: $advice" ;;
    *) die "Python $version at $1 is too new: $advice" ;;
  esac
}

# Only Python 3.12 on Linux x86-64 has a fairseq wheel; elsewhere pip compiles it.
check_compiler() {
  local version
  version=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  [ "$version $(uname -sm)" = "3.12 Linux x86_64" ] && return
  command -v "${CXX:-c++}" >/dev/null || command -v g++ >/dev/null ||
    die "no C++ compiler, and fairseq must be compiled: install one (on Debian and Ubuntu: apt install g++)"
  "$1" -c 'import os, sysconfig; os.stat(os.path.join(sysconfig.get_path("include"), "Python.h"))' 2>/dev/null ||
    die "no Python.h for $1, and fairseq must be compiled: install it (on Debian and Ubuntu: apt install python$version-dev)"
}

make_venv() {
  local python=$1 site
  say "creating .venv with $("$python" --version) at $(command -v "$python")"
  rm -rf "$VENV"/lib* # before setup.log, or an interruption would leave packages of unknown origin
  "$python" -m venv --clear "$VENV" || die "cannot create .venv with $python"
  if "$python" -c "$has_torch" >/dev/null 2>&1; then
    say "keeping the torch of $python"
    # Not --system-site-packages: it would skip a Python that is itself in a virtual environment.
    site=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    "$python" >"$site/borrowed.pth" -c '
import sys
for path in sys.path:
    if path.endswith("-packages"):
        print(f"import site; site.addsitedir({path!r})")'
    # shellcheck disable=SC2016 # for the new script
    printf '#!/bin/sh\nexec "${0%%/*}/python" -m torch.distributed.run "$@"\n' >"$VENV/bin/torchrun"
    chmod +x "$VENV/bin/torchrun"
  fi
}

# Install the plugin and its dependencies from a copy, because a build leaves files in the checkout.
# It is not editable: fairseq looks for --user-dir next to itself, so .venv needs the files.
install_plugin() {
  pip install "$@" --no-build-isolation "$temporary/plugin[test,corpus,export,parsing,serve,view,wordpiece]"
}

# Download a small package with pip: only pip has the index, proxy and certificate settings.
check_network() {
  pip download --quiet --no-deps --no-cache-dir --retries 1 --timeout 15 \
    --dest "$temporary" subword-nmt >>"$log" 2>&1 </dev/null ||
    die "pip cannot reach its package index: check the network, or pip's proxy and index settings"
}

failed() {
  tail -n 15 "$log" >&2
  check_network
  die "$1; the full output is in $log"
}

# Print the packages with commands that .venv borrows from the user's Python. They are installed again:
# .venv would lack their commands, and fairseq looks for --user-dir next to itself.
borrowed() {
  "$VENV/bin/python" - <<'PYTHON'
import sys
from importlib.metadata import distributions
from pathlib import Path

commands = "fairseq fairseq-fixed mypy pytest ruff sacrebleu sacremoses subword-nmt".split()
seen = set()
for found in distributions():  # in the order of sys.path, so .venv's own come first
    name = found.metadata["Name"].lower().replace("_", "-")
    if name in commands and name not in seen:
        seen.add(name)
        if not Path(found.locate_file("")).is_relative_to(sys.prefix):
            print(f"{name}=={found.version}")
PYTHON
}

# Print a checksum of what .venv depends on: files of the checkout, and its own packages.
state() {
  {
    find setup.py pyproject.toml README.md LICENSE examples/setup.sh aiayn_plugin \
      -type f ! -name '*.pyc' | LC_ALL=C sort | xargs cksum
    LC_ALL=C ls -d "$VENV"/lib/python3*/site-packages/*.dist-info
    torch_version 2>/dev/null || true # it may be borrowed
  } | cksum
}

torch_version() {
  "$VENV/bin/python" -c 'from importlib.metadata import version; print(version("torch"))'
}

install_everything() {
  local installed own
  check_network
  if ! "$VENV/bin/python" -c "$has_torch" >/dev/null 2>&1; then
    say "installing torch $torch"
    logged pip install --ignore-installed "torch==$torch" || failed "cannot install torch $torch"
  fi
  installed=$(torch_version)
  echo "torch==$installed" >"$temporary/torch.txt"

  say "installing fairseq and the plugin with torch $installed (compiling fairseq takes minutes)"
  # Newer versions of pip reject the metadata of the omegaconf that fairseq 0.12.2 needs.
  logged pip install --constraint "$temporary/torch.txt" setuptools wheel numpy cython \
    'pip<24.1; python_version < "3.11"' || failed "cannot install the build dependencies of fairseq"
  # fairseq-fixed is built without isolation, or pip would download a different torch to build it.
  # fairseq 0.12.2 is built in isolation: it would compile sources that it lacks if it found torch.
  logged pip install --no-deps --ignore-installed 'fairseq; python_version < "3.11"' ||
    failed "cannot install fairseq"
  # Python's default -g, debug information, would take most of the time.
  CFLAGS="${CFLAGS:-} -g0" logged install_plugin --constraint "$temporary/torch.txt" ||
    failed "cannot install fairseq"
  own=$(borrowed)
  if [ -n "$own" ]; then
    # shellcheck disable=SC2086 # each word is a package
    logged pip install --no-deps --ignore-installed --no-build-isolation $own ||
      failed "cannot install $own"
  fi
  "$VENV/bin/python" -c 'import fairseq' >>"$log" 2>&1 || failed "fairseq cannot be imported"
}

if command -v flock >/dev/null; then
  exec 9<.
  flock -n 9 || [ $? != 1 ] || { say "waiting for a running setup of this checkout" && flock 9; } || true
fi

check_torch
# bin/pip fails, unlike python -m pip, after the checkout has moved: scripts name their interpreter.
if "$VENV/bin/pip" --version >/dev/null 2>&1 && "$VENV/bin/python" -c "$usable" >/dev/null 2>&1; then
  check_chosen_python
  [ -x "$VENV/bin/fairseq-train" ] || check_compiler "$VENV/bin/python"
else
  check_ownership
  python=${PYTHON:-$(find_python)}
  check_python "$python"
  check_compiler "$python"
  make_venv "$python"
fi
unset PYTHONPATH

mkdir "$temporary/plugin"
cp -R setup.py pyproject.toml README.md LICENSE aiayn_plugin "$temporary/plugin"
# If the state has changed, pip first tries to update the plugin alone, without an index.
if [ "$(state)" != "$(cat "$VENV/state" 2>/dev/null)" ]; then
  rm -f "$VENV/state"
  say "updating .venv"
  : >"$log"
  if ! [ -x "$VENV/bin/fairseq-train" ] || ! logged install_plugin --no-index; then
    install_everything
  fi
  state >"$VENV/state"
fi
say "ready: .venv has torch $(torch_version), fairseq and the plugin"

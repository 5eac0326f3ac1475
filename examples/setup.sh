#!/usr/bin/env bash
# Makes .venv with torch, fairseq and the plugin. Run again, it brings the plugin up to date,
# in seconds and without a network; interrupted, it goes on where it stopped.
#   bash examples/setup.sh
#   PYTHON=/path/to/python bash examples/setup.sh    a torch that this Python has is kept
#   TORCH=2.10.0 bash examples/setup.sh              a new .venv has this torch; 2.10 is the oldest
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."

torch=${TORCH:-2.13.0} # the tested one
VENV=$PWD/.venv
log=$VENV/setup.log

# The user's settings for other installations must not lead ours astray.
export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_PROGRESS_BAR=off
unset PIP_TARGET PIP_PREFIX PYTHONHOME

temporary=$(mktemp -d)
pulse=
trap 'rm -rf "$temporary"; [ -z "$pulse" ] || kill "$pulse" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM # pip handles an interrupt itself, so bash alone would go on

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

# Runs a command with its output in the log; the log's last line, now and then, shows that it lives.
logged() {
  local status=0
  while sleep 20 >/dev/null 2>&1 9>&-; do
    printf '  ... %d s: %s\n' "$SECONDS" "$(tail -n 1 "$log" | cut -c 1-100)"
  done &
  pulse=$!
  "$@" >>"$log" 2>&1 </dev/null || status=$?
  kill "$pulse" 2>/dev/null || true
  wait "$pulse" 2>/dev/null || true # or bash would report it as terminated
  pulse=
  return "$status"
}

# Prefers the Python the user already works with: it may have torch.
find_python() {
  local candidate
  for candidate in python3 python python3.12 python3.13 python3.11 python3.10; do
    if "$candidate" -c "$usable" >/dev/null 2>&1; then
      echo "$candidate"
      return
    fi
  done
  echo python3
}

# A TORCH that is asked for has to be the one that .venv gets, or has.
check_torch() {
  local found
  [ -n "${TORCH:-}" ] || return 0
  case $TORCH in
    [01].* | 2.[0-9].*) die "TORCH=$TORCH is too old: the plugin needs torch 2.10 or later" ;;
  esac
  if [ -x "$VENV/bin/fairseq-train" ]; then
    found=$(torch_version)
    [ "${found%%+*}" = "$TORCH" ] ||
      die ".venv has torch $found, and TORCH=$TORCH asks for another: remove .venv to make a new one"
  fi
}

check_python() {
  local advice="install Python 3.10 to 3.13 or set PYTHON=/path/to/python" version
  "$1" -c "$usable" >/dev/null 2>&1 && return
  version=$("$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) ||
    die "no Python runs as $1: $advice"
  case $version in
    3.1[0-3].*) die "Python $version at $1 has no venv and ensurepip: install them (on Debian and Ubuntu: apt install python3-venv)" ;;
    [12].* | 3.[0-9].*) die "Python $version at $1 is too old: $advice" ;;
    *) die "Python $version at $1 is too new: $advice" ;;
  esac
}

# Only Python 3.12 on Linux x86-64 has a ready-made fairseq; for the others pip compiles it.
check_compiler() {
  local platform
  platform="$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])') $(uname -sm)"
  [ "$platform" = "3.12 Linux x86_64" ] && return
  command -v "${CXX:-c++}" >/dev/null || command -v g++ >/dev/null ||
    die "no C++ compiler, and fairseq has to be compiled: install one (on Debian and Ubuntu: apt install g++)"
  "$1" -c 'import os, sysconfig; os.stat(os.path.join(sysconfig.get_path("include"), "Python.h"))' 2>/dev/null ||
    die "no Python.h for $1, and fairseq has to be compiled: install it (on Debian and Ubuntu: apt install python3-dev)"
}

make_venv() {
  local python=$1 site
  say "making .venv with $("$python" --version) at $(command -v "$python")"
  "$python" -m venv --clear "$VENV" || die "cannot make .venv with $python"
  if "$python" -c "$has_torch" >/dev/null 2>&1; then
    say "keeping the torch of $python"
    # Not --system-site-packages: it would pass by a Python that is itself in a virtual environment.
    site=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    "$python" >"$site/borrowed.pth" -c '
import sys
for path in sys.path:
    if path.endswith("-packages"):
        print(f"import site; site.addsitedir({path!r})")'
  fi
}

# Installs the plugin with what it needs, from a copy: a build would leave files in the checkout.
# It is not editable: fairseq looks for --user-dir beside itself, so .venv needs the files.
install_plugin() {
  pip install "$@" --no-build-isolation "$temporary/plugin[test,corpus,export,parsing,serve,view,wordpiece]"
}

# Asks pip for a small package, as only pip knows the index, proxy and certificates in use.
check_network() {
  pip download --quiet --no-deps --no-cache-dir --retries 1 --timeout 15 \
    --dest "$temporary" subword-nmt >>"$log" 2>&1 </dev/null ||
    die "pip cannot reach its package index: check the network, or pip's proxy and index settings"
}

failed() {
  tail -n 15 "$log" >&2
  check_network
  die "$1; the whole output is in $log"
}

# Prints what .venv only borrows of those packages whose commands the recipes call: its own
# commands would be missing, and fairseq looks for --user-dir beside itself.
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

# What .venv depends on: the files of the checkout, and the packages that are in it.
state() {
  {
    find setup.py pyproject.toml README.md LICENSE examples/setup.sh aiayn_plugin \
      -type f ! -name '*.pyc' | LC_ALL=C sort | xargs cksum
    ls -d "$VENV"/lib/python3*/site-packages/*.dist-info
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
  # A newer pip refuses the metadata of the omegaconf that fairseq 0.12.2 needs.
  logged pip install --constraint "$temporary/torch.txt" setuptools wheel numpy cython \
    'pip<24.1; python_version < "3.11"' || failed "cannot install what builds fairseq"
  # fairseq-fixed is built without isolation, or pip would fetch another torch to build it with.
  # fairseq 0.12.2 is built in isolation: its sources lack what it compiles when it sees a torch.
  logged pip install --no-deps --ignore-installed 'fairseq; python_version < "3.11"' ||
    failed "cannot install fairseq"
  # without -g, the debug information that Python asks for: most of the time goes into it
  CFLAGS="${CFLAGS:-} -g0" logged install_plugin --constraint "$temporary/torch.txt" ||
    failed "cannot install fairseq"
  own=$(borrowed)
  if [ -n "$own" ]; then
    # shellcheck disable=SC2086 # each package is a word of its own
    logged pip install --no-deps --ignore-installed --no-build-isolation $own ||
      failed "cannot install $own"
  fi
  [ "$(torch_version)" = "$installed" ] ||
    die "pip replaced torch $installed by $(torch_version)"
  "$VENV/bin/python" -c 'import fairseq' >>"$log" 2>&1 || failed "fairseq cannot be imported"
}

if command -v flock >/dev/null; then
  exec 9<.
  flock -n 9 || { say "waiting for another set-up of this checkout" && flock 9; } || true
fi

check_torch
if "$VENV/bin/python" -c "import pip; $usable" >/dev/null 2>&1; then
  [ -x "$VENV/bin/fairseq-train" ] || check_compiler "$VENV/bin/python"
else
  python=${PYTHON:-$(find_python)}
  check_python "$python"
  check_compiler "$python"
  make_venv "$python"
fi
unset PYTHONPATH

mkdir "$temporary/plugin"
cp -R setup.py pyproject.toml README.md LICENSE aiayn_plugin "$temporary/plugin"
# If the state changed, pip finds out without an index whether only the plugin has to be renewed.
if [ "$(state)" != "$(cat "$VENV/state" 2>/dev/null)" ]; then
  rm -f "$VENV/state"
  say "bringing .venv up to date"
  : >"$log"
  if ! [ -x "$VENV/bin/fairseq-train" ] || ! logged install_plugin --no-index; then
    install_everything
  fi
  state >"$VENV/state"
fi
say "ready: .venv has torch $(torch_version), fairseq and the plugin"

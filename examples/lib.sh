# What the recipes share. A recipe sets RUN, its directory, and sources this file. With DRY_RUN=1
# it prints every command and runs none. PREPARE has more options for the program that prepares the
# data, such as --protect-patterns.
# shellcheck shell=bash
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

# run COMMAND: runs it, or prints it.
run() {
  if [ -n "${DRY_RUN:-}" ]; then
    printf '%q ' "$@" && echo
  else
    "$@"
  fi
}

# into FILE COMMAND: runs it with its output in a file.
into() {
  if [ -n "${DRY_RUN:-}" ]; then
    printf '%q ' "${@:2}" && printf '> %q\n' "$1"
  else
    "${@:2}" >"$1"
  fi
}

run bash examples/setup.sh
export PATH=$PWD/.venv/bin:$PATH
# Threads that wait asleep: with small matrices the others would spend more time spinning than
# computing, above all where another process wants a core.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE}
# glibc keeps the memory of tensors, in huge pages, instead of asking the kernel for it again and
# again.
tunables=hugetlb=1:mmap_threshold=33554432:trim_threshold=8589934592:top_pad=268435456
export GLIBC_TUNABLES=${GLIBC_TUNABLES:-glibc.malloc.${tunables//:/:glibc.malloc.}}
# fairseq is no longer kept up: Python and its libraries warn of much that is not ours to change.
export PYTHONWARNINGS=${PYTHONWARNINGS:-ignore}

run mkdir -p "$RUN"

step() { printf '\n=== %s (after %d min %02d s)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }

# train ARGUMENTS: trains on $RUN/data; started again, it goes on at the last checkpoint, and a run
# that has its updates takes none.
train() {
  run fairseq-train "$RUN/data" --user-dir aiayn_plugin --save-dir "$RUN/checkpoints" "$@" |
    if [ -n "${DRY_RUN:-}" ]; then cat; else tee -a "$RUN/train.log"; fi
}

# translate_and_score N: translates the test set with the mean of the last N checkpoints.
translate_and_score() {
  step "average the last $1 checkpoints"
  run aiayn average --inputs "$RUN/checkpoints" --num-update-checkpoints "$1" \
    --output "$RUN/model.pt"
  step "translate the test set"
  into "$RUN/generate.log" fairseq-generate "$RUN/data" --user-dir aiayn_plugin \
    --path "$RUN/model.pt" --gen-subset test --beam 4 --lenpen 0.6 --batch-size 64
  step "score"
  run aiayn score "$RUN/generate.log" --data "$RUN/data" --output "$RUN/translation.txt" \
    --examples 4
}

# wmt14 PAIR ARCH CHECKPOINTS BLEU ARGUMENTS: the paper's run on WMT 2014, and its row of Table 2.
wmt14() {
  local pair=$1 arch=$2 checkpoints=$3 bleu=$4
  shift 4
  local data=${DATA:-runs/wmt14_${pair/-/_}} precision
  step "get and prepare the data, in $data"
  # shellcheck disable=SC2086 # no option is no argument
  run python preprocess/wmt14.py "$pair" --dest "$data" ${TABLE:+--table "$TABLE"} ${PREPARE:-}
  run ln -sfn "$(realpath -m "$data")/data" "$RUN/data"

  precision=${PRECISION---bf16}
  [ -n "${PRECISION:-}" ] || has_gpu || precision=
  step "train ($arch, 25,000 target tokens an update whatever the devices)"
  # shellcheck disable=SC2086 # no precision is no argument
  train --arch "$arch" --max-tokens "${MAX_TOKENS:-4096}" $precision \
    --log-format simple --log-interval 100 "$@"

  translate_and_score "$checkpoints"
  printf '\nThe paper (Table 2, %s): BLEU %s, to compare with the paper BLEU above.\n' "$arch" "$bleu"
}

has_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; }

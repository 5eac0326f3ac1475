# What the recipes share. A recipe sets RUN, its directory, and sources this file.
# shellcheck shell=bash
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash examples/setup.sh
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

mkdir -p "$RUN"

step() { printf '\n=== %s (after %d min %02d s)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }

# train ARGUMENTS: trains on $RUN/data; started again, it goes on at the last checkpoint.
train() {
  [ -f "$RUN/trained" ] && return # fairseq would take one update more
  fairseq-train "$RUN/data" --user-dir aiayn_plugin --save-dir "$RUN/checkpoints" "$@" |
    tee -a "$RUN/train.log"
  touch "$RUN/trained"
}

# translate_and_score N: translates the test set with the mean of the last N checkpoints.
translate_and_score() {
  step "average the last $1 checkpoints"
  aiayn average --inputs "$RUN/checkpoints" --num-update-checkpoints "$1" --output "$RUN/model.pt"
  step "translate the test set"
  fairseq-generate "$RUN/data" --user-dir aiayn_plugin --path "$RUN/model.pt" --gen-subset test \
    --beam 4 --lenpen 0.6 --batch-size 64 >"$RUN/generate.log"
  step "score"
  aiayn score "$RUN/generate.log" --data "$RUN/data" --output "$RUN/translation.txt" --examples 4
}

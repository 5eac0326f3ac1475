# Functions of the recipes. A recipe sources this file, checks its variables and calls begin. DRY_RUN=1
# prints the commands, for a shell in the project's root, without running them. PREPARE holds extra
# options for aiayn prepare (multi30k.sh, tatoeba.sh, table3.sh) or aiayn wmt14, such as
# --protect-patterns.
# shellcheck shell=bash
unset CDPATH
# --help: print the comment at the head of the recipe.
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
start=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
trap 'exit 130' INT # some commands handle Ctrl-C themselves; without this trap, bash would continue

# How a recipe runs its commands, or prints them:
#   run COMMAND               run it
#   log COMMAND               run it with its output in $RUN/train.log
#   save_output FILE COMMAND  run it, and write its output to a file once it has succeeded
#   pipe TEXT FUNCTION ...    call one of these functions with TEXT as the command's standard input
#   say                       print standard input
#   step TITLE                print a heading
if [ -n "${DRY_RUN:-}" ]; then
  run() { printf '%q ' "$@" && echo; }
  log() { run "$@"; }
  save_output() { printf '%q ' "${@:2}" && printf '> %q\n' "$1"; }
  pipe() { printf 'echo %q | ' "$1" && "${@:2}"; }
  say() { sed 's/^./# &/'; }
  step() { printf '\n# === %s\n' "$*"; }
else
  run() { "$@"; }
  log() { "$@" 2>&1 | show_progress || explain "$?" "$1"; }
  save_output() {
    "${@:2}" 2>&1 >"$1.part" | show_progress || explain "$?" "$2" || return
    mv "$1.part" "$1"
  }
  pipe() { "${@:2}" <<<"$1"; }
  say() { cat; }
  step() { printf '\n=== %s (after %d min %02d s)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }
fi

# show_progress: write the output of a command to $RUN/train.log, and show its progress, warnings and
# errors.
show_progress() { python examples/progress.py "$RUN/train.log"; }

# explain STATUS COMMAND: return the status of a command that failed. A command that was not found, or
# was killed, for example for lack of memory, printed no reason.
explain() {
  [ "$1" -le 125 ] || [ "$1" = 130 ] ||
    echo "${0##*/}: error: $2 ended with status $1: see $RUN/train.log" >&2
  return "$1"
}

# from_root PATH: resolve a path against the caller's directory, relative to the root if inside it.
from_root() {
  local root=$PWD
  (cd "$start" && realpath -m --relative-base "$root" -- "$1")
}

# die MESSAGE: end the recipe with an error.
die() {
  echo "${0##*/}: error: $*" >&2
  exit 1
}

# check_choice NAME VALUE CHOICES: fail unless the value of the variable NAME is empty or one of the choices.
check_choice() {
  [[ -z $2 || ($2 != *" "* && " $3 " == *" $2 "*) ]] || die "$1=$2: choose from $3"
}

# only_directory ARGUMENTS: fail unless the recipe has at most one argument, a directory.
only_directory() {
  [[ $# -le 1 && ${1:-} != -* ]] || die "give at most one argument, a directory, not: $*"
}

# begin: set up .venv, the environment and the recipe's directory, RUN.
begin() {
  [ "$(uname)" = Linux ] || die "the recipes need Linux: see Installation in examples/guide.md"
  check_choice PRECISION "${PRECISION:-}" "--bf16 --fp16"
  [[ ${MAX_TOKENS:-1} =~ ^[1-9][0-9]*$ ]] || die "MAX_TOKENS=$MAX_TOKENS: give a number of tokens"
  # The user's paths are relative to the caller's directory.
  DATA=${DATA:+$(from_root "$DATA")}
  TABLE=${TABLE:+$(from_root "$TABLE")}
  run bash examples/setup.sh
  [ -z "${DRY_RUN:-}" ] || echo "export PATH=\"\$PWD/.venv/bin:\$PATH\""
  export PATH=$PWD/.venv/bin:$PATH
  # Make glibc keep freed tensors' memory, in huge pages, instead of returning it to the kernel.
  local tunables=hugetlb=1:mmap_threshold=33554432:trim_threshold=8589934592:top_pad=268435456
  run export "GLIBC_TUNABLES=${GLIBC_TUNABLES:-glibc.malloc.${tunables//:/:glibc.malloc.}}"
  # On a GPU, let segments grow: batches differ in length, so freed blocks rarely fit the next one.
  run export "PYTORCH_ALLOC_CONF=${PYTORCH_ALLOC_CONF:-expandable_segments:True}"
  # Seconds that torchrun waits after Ctrl-C for the end of an update.
  run export "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=${TORCH_ELASTIC_SHUTDOWN_TIMEOUT:-600}"
  # torchrun would otherwise handle SIGHUP, which nohup ignores.
  [[ $(trap -p HUP) != *"''"* ]] || run export PET_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGQUIT
  # In a SLURM job fairseq expects one process per SLURM task (slurm.sh is for that), and derives the port
  # of a run on several GPUs from the job's ID, so concurrent runs would collide.
  run unset SLURM_JOB_NODELIST SLURM_STEP_NODELIST SLURM_JOB_ID
  run unset PYTHONHOME PYTHONPATH # as in setup.sh
  # fairseq is unmaintained: Python and its libraries warn about code we cannot change.
  run export "PYTHONWARNINGS=${PYTHONWARNINGS:-ignore}"
  # Number GPUs as nvidia-smi does.
  run export "CUDA_DEVICE_ORDER=${CUDA_DEVICE_ORDER:-PCI_BUS_ID}"
  run mkdir -p "$RUN"
  [ -n "${DRY_RUN:-}" ] || [ -w "$RUN" ] || die "$RUN is not writable: set a different RUN"
  find_gpu
}

# share_data: link $RUN/data to $DATA/data, which several runs share.
share_data() {
  if [ "$RUN/data" -ef "$DATA/data" ]; then return; fi
  [ ! -e "$RUN/data" ] || die "$RUN/data is not $DATA/data: set a different RUN"
  run ln -sfnrT "$DATA/data" "$RUN/data"
}

# list_checkpoints DIRECTORY PATTERN: print the names of a run's checkpoints that match a pattern.
list_checkpoints() { (cd "$1/checkpoints" 2>/dev/null && compgen -G "$2"); }

# check_arguments ARGUMENTS: record them for a run without checkpoints; fail if a run with checkpoints
# was started with different ones, apart from its length, its logs and checkpoints, and what depends on
# the machine.
check_arguments() {
  local arguments length='max-(update|epoch)|patience|stop-time-hours' file=$RUN/arguments
  local files='log-interval|tensorboard-logdir|(save|keep)-interval-updates|restore-file'
  local machine='max-tokens|update-freq|distributed-world-size|num-workers'
  local flags='bf16|fp16|cpu|no-compile|checkpoint-activations|reset-[a-z-]+'
  arguments=$(sed -E "s/ --($length|$files|$machine)[ =][^ ]+//g; s/ --($flags)//g" <<<" $*")
  if [ -d "$RUN/checkpoints" ]; then # a training run holds a lock on it
    flock -n "$RUN/checkpoints" true || [ $? != 1 ] ||
      die "$RUN is in use by another training run: stop it, or set a different RUN"
  fi
  if list_checkpoints "$RUN" 'checkpoint*.pt' >/dev/null && [ -f "$file" ]; then
    [ "$(cat "$file")" = "$arguments" ] ||
      die "$RUN was started with different arguments: set a different RUN, or remove $file to continue anyway"
  else
    echo "$arguments" >"$file"
  fi
}

# train ARGUMENTS: train on $RUN/data, or resume from the last checkpoint, unless the run has finished.
# LAUNCHER is a command that starts it, such as torchrun; train_small sets it on a CPU.
train() {
  [ -n "${DRY_RUN:-}" ] || check_arguments "$@"
  # A GPU computes a base update about as fast as one process loads its batch.
  if has_gpu; then set -- --num-workers 4 "$@"; fi
  # shellcheck disable=SC2086 # LAUNCHER is a command with arguments, or empty
  log ${LAUNCHER:-} fairseq-train "$RUN/data" --user-dir aiayn_plugin --save-dir "$RUN/checkpoints" "$@"
}

# train_small ARGUMENTS: train a model whose operations are too small to split over threads. On a CPU,
# two processes each take half of the cores and half of an update. Processors with bfloat16
# instructions use bfloat16 (PRECISION= for float32).
train_small() {
  local precision cores
  precision=$(gpu_precision)
  if ! has_gpu; then
    [ -n "${PRECISION+set}" ] || ! grep -qsw -e avx512_bf16 -e amx_bf16 /proc/cpuinfo ||
      precision=--bf16
    cores=$(count_cores)
    [ "$cores" = 1 ] || local LAUNCHER="env OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores / 2))} \
      torchrun --standalone --nproc_per_node 2 --no-python"
  fi
  # shellcheck disable=SC2086 # an empty precision is not an argument
  train "$@" $precision
}

# train_large ARCH ARGUMENTS: train a model of the paper's size. On a GPU, the batch size follows from its
# memory, and training uses half precision.
train_large() {
  # shellcheck disable=SC2046 # an empty precision is not an argument
  train --arch "$1" --max-tokens "$(device_tokens)" $(gpu_precision) \
    --log-format simple --log-interval 100 "${@:2}"
}

# translate SPLIT MODEL FILE: translate a split of $RUN/data with the paper's search (§6.1).
translate() {
  save_output "$3" fairseq-generate "$RUN/data" --user-dir aiayn_plugin \
    --path "$2" --gen-subset "$1" --beam 4 --lenpen 0.6 --batch-size 64
}

# translate_text SOURCE OUTPUT OPTIONS: translate raw text with aiayn translate.
translate_text() {
  if [ -n "${DRY_RUN:-}" ]; then
    printf '%q ' aiayn translate "$RUN" "${@:3}" && printf '< %q > %q\n' "$1" "$2"
  else
    save_output "$2" aiayn translate "$RUN" "${@:3}" <"$1"
  fi
}

# average N: average the last N checkpoints, or all if a short run has fewer, into $RUN/model.pt.
average() {
  local n=$1 found
  found=$(list_checkpoints "$RUN" 'checkpoint_[0-9]*_*.pt' | wc -l) || true
  if [ -z "${DRY_RUN:-}" ] && [ "$found" -gt 0 ] && [ "$found" -lt "$n" ]; then n=$found; fi
  step "average the last $n checkpoints"
  run aiayn average --inputs "$RUN/checkpoints" --num-update-checkpoints "$n" \
    --output "$RUN/model.pt"
}

# translate_and_score N: translate the test set with the average of the last N checkpoints.
translate_and_score() {
  average "$1"
  step "translate the test set"
  translate test "$RUN/model.pt" "$RUN/generate.log"
  step "score"
  run aiayn score "$RUN/generate.log" --data "$RUN/data" --json "$RUN/scores.json" \
    --output "$RUN/translation.txt" --examples 4
}

# parse FILE ARGUMENTS: parse the test set with $RUN/model.pt and the paper's parsing search (§6.3), the
# default of fairseq-generate for tree data.
parse() {
  save_output "$1" fairseq-generate "$RUN/data" --user-dir aiayn_plugin \
    --path "$RUN/model.pt" --max-tokens 2000 "${@:2}"
}

# parse_and_score N: parse the test set with the average of the last N checkpoints.
parse_and_score() {
  average "$1"
  step "parse the test set"
  parse "$RUN/generate.log"
  step "score"
  run aiayn score "$RUN/generate.log" --data "$RUN/data" --json "$RUN/scores.json" \
    --output "$RUN/trees.txt"
}

# compare PLACE RESULT SCORE: print the paper's result, to compare with a score printed above.
compare() { printf '\nThe paper (%s): %s, to compare with the %s above.\n' "$@" | say; }

# get CORPUS DIRECTORY: copy the corpus's text from DIRECTORY, or download it if DIRECTORY is an empty
# string, to $RUN/raw.
get() {
  local directory=${2:+$(from_root "$2")}
  [ -d "${directory:-.}" ] || die "no such directory: $directory"
  run env RUN="$RUN" bash examples/corpora.sh "$1" ${directory:+"$directory"}
}

# multi30k MERGES DIRECTORY: get Multi30k's text, as `get` does, and prepare it in $RUN/data with this
# number of BPE merges.
multi30k() {
  step "get the text"
  get multi30k "$2"
  step "prepare"
  # shellcheck disable=SC2086 # empty options are not an argument
  log aiayn prepare -s en -t de --trainpref "$RUN/raw/train" \
    --validpref "$RUN/raw/valid" --testpref "$RUN/raw/test" --destdir "$RUN/data" \
    --merges "$1" ${PREPARE:-}
}

# prepare_wmt14 PAIR: download WMT 2014 and prepare it in $DATA/data.
prepare_wmt14() {
  DATA=${DATA:-runs/wmt14_${1/-/_}}
  step "get and prepare the data, in $DATA"
  # shellcheck disable=SC2086 # empty options are not an argument
  run aiayn wmt14 "$1" --dest "$DATA" ${TABLE:+--table "$TABLE"} ${PREPARE:-}
}

# train_wmt14 ARCH ARGUMENTS: train in $RUN on $DATA/data as in the paper.
train_wmt14() {
  share_data
  step "train ($1, 25,000 target tokens per update on any number of devices)"
  train_large "$@"
}

# device_tokens: print MAX_TOKENS or the tokens per batch that one device holds: one per 2 MiB of the
# smallest GPU, at most 30,000 (an update of 25,000 plus padding); 4,096 without a GPU. Per token of each
# side the big model keeps 0.44 MiB in bfloat16 and 0.74 in float32 until the backward pass.
device_tokens() {
  local memory=
  if has_gpu; then memory=$(query_gpus memory.total); fi
  [[ $memory =~ ^[0-9]+$ ]] || memory=8192
  echo "${MAX_TOKENS:-$((memory / 2 > 30000 ? 30000 : memory / 2))}"
}

# query_gpus FIELD: print the smallest value of a field over the visible GPUs.
query_gpus() {
  nvidia-smi ${CUDA_VISIBLE_DEVICES:+-i "$CUDA_VISIBLE_DEVICES"} "--query-gpu=$1" \
    --format=csv,noheader,nounits 2>/dev/null | sort -n | head -n 1 || true
}

# count_cores: print the number of cores that this process may use.
count_cores() { env -u OMP_NUM_THREADS nproc; }

# find_gpu: set `gpu`, which has_gpu reads, if torch can use a GPU: the driver or the GPU may be too old for torch.
# With DRY_RUN, ask only the driver.
find_gpu() {
  local reason
  gpu=
  nvidia-smi -L >/dev/null 2>&1 || return 0
  if [ -n "${DRY_RUN:-}" ] || reason=$(python -c 'import torch; torch.ones(1, device="cuda")' 2>&1); then
    gpu=yes
  else
    reason=$(grep -m 1 'Error: ' <<<"$reason" || tail -n 1 <<<"$reason")
    echo "${0##*/}: warning: torch cannot use the GPU, so the CPU is used: $reason" >&2
    export CUDA_VISIBLE_DEVICES= # otherwise torch would still count it, and fairseq would start a process for it
  fi
}

has_gpu() { [ -n "${gpu:-}" ]; }

# gpu_precision: print PRECISION if it is set; else --bf16 on GPUs, --fp16 if one of them lacks
# bfloat16 (compute capability below 8.0, such as a V100's 7.0), and nothing without a GPU.
gpu_precision() {
  if [ -n "${PRECISION+set}" ] || ! has_gpu; then
    echo "${PRECISION:-}"
    return
  fi
  case $(query_gpus compute_cap) in
    [1-7].*) echo --fp16 ;;
    *) echo --bf16 ;;
  esac
}

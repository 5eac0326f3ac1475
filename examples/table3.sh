#!/usr/bin/env bash
# A small-scale Table 3: the paper's variations of the Transformer, in the same proportions, on
# Multi30k. They translate the validation set with their last checkpoint, without averaging, as in the
# paper. Ends with a report on all finished rows. At the small scale all rows have the same number of
# updates and, except base_seed2 and base_seed3, the same seed, and a row takes 10 to 20 minutes on a
# CPU core; with SCALE=paper, as long as wmt14_en_de_base.sh (big: wmt14_en_de_big.sh).
#   bash examples/table3.sh             all rows of the table below
#   bash examples/table3.sh base c_n2   only these rows
#   SCALE=paper bash examples/table3.sh c_n2    the paper's sizes, on WMT 2014 (newstest2013)
#   DRY_RUN=1 bash examples/table3.sh   print the commands without running them
# To resume after an interruption, run it again: finished rows are skipped. Each row uses all visible
# GPUs. It is faster to train one row per GPU: once the data is prepared, start the script once for
# each GPU (CUDA_VISIBLE_DEVICES=0, 1, ...) with different rows.
#   RUN      results, a directory for each row (default: runs/table3, or runs/table3_paper)
#   JOBS     number of rows trained at a time, which share the cores (default: 1); with several, the
#            logs are only in RUN/ROW: train.log and stderr.log
#   TEXT     directory with {train,val,test_2016_flickr}.{en,de} (default: download them)
#   UPDATES, WARMUP, TOKENS  updates, warm-up updates, and target tokens per update (default: 1000,
#            500, 2500)
#   DATA     directory with a prepared data/ that replaces Multi30k; with SCALE=paper as in
#            wmt14_en_de_base.sh, whose other variables work too
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

SCALE=${SCALE:-small}
JOBS=${JOBS:-1}
# SCALE=paper implies the paper's values.
if [ "$SCALE" = paper ] && [ -n "${UPDATES-}${WARMUP-}${TOKENS-}" ]; then
  die "UPDATES, WARMUP and TOKENS are for SCALE=small: unset them"
fi
UPDATES=${UPDATES:-1000}
WARMUP=${WARMUP:-500}
TOKENS=${TOKENS:-2500}

# The rows: name (aiayn_NAME is the architecture of the paper's size), changes to the small model of
# the first row, and changes to the paper's base model. N is half the paper's; d_model, d_ff, d_k
# and d_v are a quarter; h, P_drop and ε_ls are the paper's.
table() {
  sed 's/^ *//' <<'TABLE'
    base          | --N 3 --d-model 128 --d-ff 512 --h 8 --dropout 0.1 --label-smoothing 0.1 | N 6, d_model 512, d_ff 2048, h 8
    base_seed2    | --seed 2                                         | base with a different seed
    base_seed3    | --seed 3                                         | base with a different seed
    a_h1          | --h 1                                            | h 1, d_k = d_v = 512
    a_h4          | --h 4                                            | h 4, d_k = d_v = 128
    a_h16         | --h 16                                           | h 16, d_k = d_v = 32
    a_h32         | --h 32                                           | h 32, d_k = d_v = 16
    b_dk16        | --d-k 4                                          | d_k 16
    b_dk32        | --d-k 8                                          | d_k 32
    c_n2          | --N 1                                            | N 2
    c_n4          | --N 2                                            | N 4
    c_n8          | --N 4                                            | N 8
    c_d256        | --d-model 64                                     | d_model 256, d_k = d_v = 32
    c_d1024       | --d-model 256                                    | d_model 1024, d_k = d_v = 128
    c_ff1024      | --d-ff 256                                       | d_ff 1024
    c_ff4096      | --d-ff 1024                                      | d_ff 4096
    d_dropout00   | --dropout 0.0                                    | P_drop 0.0
    d_dropout02   | --dropout 0.2                                    | P_drop 0.2
    d_smoothing00 | --label-smoothing 0.0                            | ε_ls 0.0
    d_smoothing02 | --label-smoothing 0.2                            | ε_ls 0.2
    e_learned     | --positions learned                              | learned positions
    big           | --d-model 256 --d-ff 1024 --h 16 --dropout 0.3   | d_model 1024, d_ff 4096, h 16, P_drop 0.3, three times the updates
TABLE
}

names=$(table | cut -d ' ' -f 1)
for row in "$@"; do
  grep -qxF -e "$row" <<<"$names" || die "unknown row $row: choose from ${names//$'\n'/ }"
done
check_choice SCALE "$SCALE" "small paper"
if [ "$SCALE" = paper ]; then RUN=${RUN:-runs/table3_paper}; fi
RUN=${RUN:-runs/table3}
[[ $JOBS =~ ^[1-9][0-9]*$ ]] || die "JOBS=$JOBS must be an integer of at least 1"
[ -z "${DRY_RUN:-}" ] || JOBS=1
for folder in "${TEXT:-.}" "${DATA:-.}"; do
  [ -d "$(from_root "$folder")" ] || [ "$SCALE" = paper ] || die "no such directory: $folder (TEXT or DATA)"
done
# In the table's order, each once.
rows=$(if [ $# -gt 0 ]; then grep -xF "$(printf '%s\n' "$@")" <<<"$names"; else echo "$names"; fi)

begin
given=$DATA
if [ "$JOBS" -gt 1 ]; then
  cores=$(count_cores)
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores > JOBS ? cores / JOBS : 1))}
fi

# change ROW: print the changes of a row's small model from base.
change() { table | awk -F ' *[|] *' -v row="$1" '$1 == row { print $2 }'; }

# arguments ROW: print the row's arguments for fairseq-train, or for train_wmt14.
arguments() {
  local row=${1%%_seed*} base more=
  base=$(change base)
  [ "$1" = base ] || more=$(change "$1")
  # shellcheck disable=SC2086 # each word is an argument
  if [ "$SCALE" = small ]; then
    echo --arch aiayn_base $base --seed 1 --tokens-per-update "$TOKENS" \
      --warmup-updates "$WARMUP" --max-update "$UPDATES" $more
  else # one checkpoint is enough without averaging: 20 of the big model take 51 GB
    [ "$row" != "$1" ] || more="--seed 1"
    echo "aiayn_$row" $more --keep-interval-updates 1
  fi
}

# settings ROW: print the settings that a row's training must keep when it resumes.
settings() { echo "$(arguments "$1")${given:+ on $given}"; }

# The scores are written last.
finished() { [ -f "$RUN/$1/scores-valid.json" ]; }

# one_row ROW: train it and translate the validation set, in $RUN/ROW. Runs in a subshell.
one_row() {
  local arguments
  read -ra arguments <<<"$(arguments "$1")"
  RUN=$RUN/$1
  run mkdir -p "$RUN"
  if [ -z "${DRY_RUN:-}" ]; then
    # Child processes inherit the lock: a training run that outlives this script still holds it.
    exec 9>"$RUN/lock"
    flock -n 9 || [ $? != 1 ] || die "$RUN is being trained by a different process: stop it first"
    settings "$1" >"$RUN/settings"
  fi
  if [ "$SCALE" = paper ]; then
    train_wmt14 "${arguments[@]}"
  else
    share_data
    train "${arguments[@]}" --save-interval-updates 0 --no-epoch-checkpoints \
      --log-format simple --log-interval 50
  fi
  step "translate the validation set with $1"
  translate valid "$RUN/checkpoints/checkpoint_last.pt" "$RUN/generate-valid.log"
  run aiayn score "$RUN/generate-valid.log" --data "$RUN/data" --split valid \
    --json "$RUN/scores-valid.json"
}

# wait_for N: wait until fewer than N rows are being trained.
wait_for() {
  while [ "$(jobs -rp | wc -l)" -ge "$1" ]; do wait -n || true; done
}

for row in $rows; do
  if [ -f "$RUN/$row/settings" ] && [ "$(cat "$RUN/$row/settings")" != "$(settings "$row")" ] &&
    { finished "$row" || list_checkpoints "$RUN/$row" 'checkpoint*.pt' >/dev/null; }; then
    die "$RUN/$row was started with different settings ($RUN/$row/settings): remove it or set a different RUN"
  fi
done

columns='s/|//; s/|/  paper:/'
if [ "$SCALE" = paper ]; then columns='s/|.*|/  paper:/'; fi
table | grep -E "^(${rows//$'\n'/|}) " | sed "$columns" | say

if [ "$SCALE" = paper ]; then
  prepare_wmt14 en-de
elif [ -z "${DATA:-}" ]; then
  multi30k 4000 "${TEXT:-}"
  DATA=$RUN
elif [ ! -d "$DATA/data" ]; then
  die "no data in $DATA/data: DATA must be a directory with a prepared data/"
fi

# shellcheck disable=SC2329 # the trap calls it
stop() {
  local group
  for group in $(jobs -p); do kill -INT -- "-$group" 2>/dev/null || true; done
  wait
}

trap stop EXIT
trap 'exit 130' INT TERM HUP
for row in $rows; do
  if finished "$row"; then
    step "$row has finished"
    continue
  fi
  wait_for "$JOBS"
  step "$row"
  set -m # a process group for each row, so that all of its processes end with this script
  if [ "$JOBS" = 1 ]; then
    one_row "$row" </dev/null &
  else
    mkdir -p "$RUN/$row"
    one_row "$row" </dev/null >/dev/null 2>"$RUN/$row/stderr.log" &
  fi
  set +m
done
wait_for 1

reported=() missing=()
for row in $names; do
  if finished "$row" || { [ -n "${DRY_RUN:-}" ] && grep -qxF -e "$row" <<<"$rows"; }; then
    reported+=("$RUN/$row")
  elif grep -qxF -e "$row" <<<"$rows"; then
    missing+=("$row")
  fi
done
status=0
if [ ${#reported[@]} -gt 0 ]; then
  step "report"
  run aiayn report "${reported[@]}" --output "$RUN/report" || status=$?
fi
[ ${#missing[@]} = 0 ] ||
  die "not finished: ${missing[*]} (their logs are in $RUN); run this again to resume them"
exit $status

#!/usr/bin/env bash
# Table 3 in small: the paper's variations of the Transformer, by the same ratios, on Multi30k; ends
# in a report over all rows that have finished. Each row is trained with the same updates and seed,
# and translates the validation set with its last checkpoint, without averaging, as in the paper.
#   bash examples/table3.sh             all rows of the table below
#   bash examples/table3.sh base c_n2   these rows
#   SCALE=paper bash examples/table3.sh c_n2    the paper's own size, on WMT 2014 (newstest2013)
#   DRY_RUN=1 bash examples/table3.sh   prints every command and runs none
# Stopped and started again, it goes on: a finished row is not done again.
#   RUN      results, a directory for each row (default: runs/table3, or runs/table3_paper)
#   JOBS     so many rows at a time, which share the cores; from 2 on the logs are only in
#            RUN/ROW, in train.log and stderr.log (default: 1)
#   TEXT     directory with train, val and test_2016_flickr .en and .de; without it they are fetched
#   DATA     directory whose data/ the rows share: one that is prepared, in place of Multi30k, or
#            with SCALE=paper as in wmt14_en_de_base.sh, whose other variables work too
set -euo pipefail
SCALE=${SCALE:-small}
JOBS=${JOBS:-1}
# The paper's scale has the paper's.
if [ "$SCALE" = paper ] && [ -n "${UPDATES-}${WARMUP-}${TOKENS-}" ]; then
  echo "table3.sh: error: UPDATES, WARMUP and TOKENS are for the small scale: unset them" >&2
  exit 1
fi
UPDATES=${UPDATES:-1000}
WARMUP=${WARMUP:-500} # updates until the rate's peak
TOKENS=${TOKENS:-2500} # target tokens of an update

# The rows: name (with aiayn_ before it, the architecture of the paper's size), what the small model
# changes of the first row, and what the paper changes of base. N is half the paper's; d_model, d_ff,
# d_k and d_v are a quarter; h, P_drop and ε_ls are the paper's own.
table() {
  sed 's/^ *//' <<'TABLE'
    base          | --N 3 --d-model 128 --d-ff 512 --h 8 --dropout 0.1 --label-smoothing 0.1 | N 6, d_model 512, d_ff 2048, h 8
    base_seed2    | --seed 2                                         | base again, to see the noise
    base_seed3    | --seed 3                                         | base again, to see the noise
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

die() {
  echo "table3.sh: error: $*" >&2
  exit 1
}

names=$(table | cut -d ' ' -f 1)
for row in "$@"; do
  grep -qxF -e "$row" <<<"$names" || die "there is no row $row: give some of ${names//$'\n'/ }"
done
case $SCALE in
  small) RUN=${RUN:-runs/table3} ;;
  paper) RUN=${RUN:-runs/table3_paper} ;;
  *) die "SCALE=$SCALE has to be small or paper" ;;
esac
[[ $JOBS =~ ^[1-9][0-9]*$ ]] || die "JOBS=$JOBS has to be a number from 1 on"
[ -z "${DRY_RUN:-}" ] || JOBS=1
for folder in "${TEXT:-.}" "${DATA:-.}"; do
  [ -d "$folder" ] || [ "$SCALE" = paper ] || die "there is no directory $folder (TEXT, DATA)"
done
text=${TEXT:+$(realpath "$TEXT")}
DATA=${DATA:+$(realpath -m "$DATA")}
given=$DATA
# In the table's order, and each once.
rows=$(if [ $# -gt 0 ]; then grep -xF "$(printf '%s\n' "$@")" <<<"$names"; else echo "$names"; fi)

# shellcheck source=examples/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
if [ "$JOBS" -gt 1 ]; then
  cores=$(getconf _NPROCESSORS_ONLN)
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores > JOBS ? cores / JOBS : 1))}
fi

# change ROW: what a row's small model changes of base.
change() { table | awk -F ' *[|] *' -v row="$1" '$1 == row { print $2 }'; }

# arguments ROW: what fairseq-train gets for a row, or wmt14_train.
arguments() {
  local row=${1%%_seed*} base more=
  base=$(change base)
  [ "$1" = base ] || more=$(change "$1")
  # shellcheck disable=SC2086 # each argument is a word, and no change is none
  if [ "$SCALE" = small ]; then
    echo --arch aiayn_base $base --seed 1 --tokens-per-update "$TOKENS" \
      --warmup-updates "$WARMUP" --max-update "$UPDATES" $more
  else # nothing is averaged, so one checkpoint is enough: 20 of big's would take 51 GB
    [ "$row" != "$1" ] || more="--seed 1"
    echo "aiayn_$row" $more --keep-interval-updates 1
  fi
}

# settings ROW: what a row must not change while it is in training.
settings() { echo "$(arguments "$1")${given:+ on $given}"; }

# Its log has its name only once everything before has ended well.
finished() { [ -f "$RUN/$1/generate-valid.log" ]; }

# one_row ROW: trains it and translates the validation set, in $RUN/ROW. In a process of its own.
one_row() {
  local arguments
  read -ra arguments <<<"$(arguments "$1")"
  RUN=$RUN/$1
  run mkdir -p "$RUN"
  if [ -z "${DRY_RUN:-}" ]; then
    # What it starts holds the lock too: a training that outlives this script still has it.
    exec 9>"$RUN/lock"
    flock -n 9 || die "$RUN is in training: stop that first"
  fi
  into "$RUN/arguments" settings "$1"
  if [ "$SCALE" = paper ]; then
    wmt14_train "${arguments[@]}"
  else
    share_data
    train "${arguments[@]}" --save-interval-updates 0 --no-epoch-checkpoints \
      --log-format simple --log-interval 50
  fi
  step "translate the validation set with $1"
  translate valid "$RUN/checkpoints/checkpoint_last.pt" "$RUN/generate-valid.log"
}

# wait_for N: waits until less than N rows are in training.
wait_for() {
  if [ "$1" = 1 ]; then wait; fi
  while [ "$(jobs -rp | wc -l)" -ge "$1" ]; do sleep 1; done
}

for row in $rows; do
  [ ! -f "$RUN/$row/arguments" ] || [ "$(cat "$RUN/$row/arguments")" = "$(settings "$row")" ] ||
    die "$RUN/$row was begun with other settings ($RUN/$row/arguments): remove it, or set another RUN"
done

table | while IFS='|' read -r row small paper; do
  grep -qxF -e "${row%% *}" <<<"$rows" || continue
  if [ "$SCALE" = paper ]; then small=; fi
  printf '%s%s  the paper:%s\n' "$row" "$small" "$paper"
done

if [ "$SCALE" = paper ]; then
  wmt14_data en-de
elif [ -z "${DATA:-}" ]; then
  multi30k "$text" 4000
  DATA=$RUN
elif [ ! -d "$DATA/data" ]; then
  die "no data in $DATA/data: DATA has to be a directory in which data/ is prepared"
fi

# shellcheck disable=SC2329 # the trap calls it
stop() {
  local group
  for group in $(jobs -p); do kill -- "-$group" 2>/dev/null || true; done
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
  set -m # a process group for each row, so that all of it ends if this script is stopped
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
  die "not finished: ${missing[*]} (their logs are in $RUN); started again, they go on"
exit $status

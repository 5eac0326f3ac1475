#!/usr/bin/env bash
# A translator for everyday sentences, English to German: Tatoeba, 157,563 pairs. Scores the
# Tatoeba-Challenge's test set of 2020-07-28 and, to show where the model fails, newstest2014 (news).
# Training takes 66 minutes on two cores of a Zen 5 with bfloat16; in float32 on older processors, 3.5
# to 5 hours.
#   bash examples/tatoeba.sh [ARGUMENTS]            download the text from github.com
#   bash examples/tatoeba.sh DIRECTORY [ARGUMENTS]  use its tatoeba/{train,valid,test}.{en,de} and
#                                                   newstest/newstest2014.{en,de}
# ARGUMENTS go to fairseq-train. To resume after an interruption, run it again.
#   DIRECTION  en-de (default) or de-en
#   RUN        results (default: runs/tatoeba_en_de or runs/tatoeba_de_en)
#   PREPARE    more options for aiayn prepare
#   PRECISION  empty for float32 (default: --bf16 if the processor has bfloat16 instructions)
set -euo pipefail
source_dir=
if [[ ${1:--} != -* ]]; then
  source_dir=$1
  shift
fi
DIRECTION=${DIRECTION:-en-de}
RUN=${RUN:-runs/tatoeba_${DIRECTION/-/_}}
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
check_choice DIRECTION "$DIRECTION" "en-de de-en"
begin
from=${DIRECTION%-*} to=${DIRECTION#*-}

step "get the text"
get tatoeba "$source_dir"
step "prepare"
# shellcheck disable=SC2086 # empty options are not an argument
log aiayn prepare -s "$from" -t "$to" --trainpref "$RUN/raw/train" --validpref "$RUN/raw/valid" \
  --testpref "$RUN/raw/test" --destdir "$RUN/data" --merges 8000 ${PREPARE:-}

step "train"
train_small --arch aiayn_tiny --N 4 --d-model 256 --d-ff 512 --dropout 0.2 \
  --tokens-per-update 4000 --warmup-updates 2000 --max-update 8000 \
  --save-interval-updates 200 --keep-interval-updates 20 --validate-interval 10 \
  --validate-interval-updates 400 --log-format simple --log-interval 100 "$@"

translate_and_score 20
for set in test newstest2014; do
  for precision in bfloat16 int8; do
    step "translate and score $set in $precision"
    output=$RUN/$set.$precision
    translate_text "$RUN/raw/$set.$from" "$output.$to" --precision "$precision"
    run aiayn score "$output.$to" --reference "$RUN/raw/$set.$to" -t "$to" --json "$output.json"
  done
done

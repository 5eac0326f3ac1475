#!/usr/bin/env bash
# Multi30k (image captions, 29,000 pairs), English to German: from raw text to sacreBLEU on
# test_2016_flickr. Training takes 33 minutes on two CPU cores with bfloat16, and longer without.
#   bash examples/multi30k.sh [ARGUMENTS]            download the text from github.com/multi30k/dataset
#   bash examples/multi30k.sh DIRECTORY [ARGUMENTS]  use its {train,val,test_2016_flickr}.{en,de}
# ARGUMENTS, such as --seed 2 or --max-update 6000, go to fairseq-train. To resume after an
# interruption, run it again.
#   RUN        results (default: runs/multi30k)
#   PREPARE    more options for aiayn prepare
#   PRECISION  empty for float32 (default: --bf16 if the processor has bfloat16 instructions)
set -euo pipefail
source_dir=
if [[ ${1:--} != -* ]]; then
  source_dir=$1
  shift
fi
RUN=${RUN:-runs/multi30k}
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
begin

multi30k 8000 "$source_dir"

step "train (33 minutes on two cores with bfloat16)"
train_small --arch aiayn_tiny --N 3 --d-model 256 --d-ff 512 --dropout 0.3 \
  --tokens-per-update 1250 --warmup-updates 800 --max-update 12000 \
  --save-interval-updates 200 --keep-interval-updates 20 --validate-interval 10 \
  --log-format simple --log-interval 100 "$@"

translate_and_score 20

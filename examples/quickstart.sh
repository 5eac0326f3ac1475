#!/usr/bin/env bash
# From scratch to BLEU without downloading data: translates dates, times, numbers, money, measures
# and lists from English to German. Takes 2 to 6 minutes on two CPU cores, plus 3 to 8 for setup.
#   bash examples/quickstart.sh [ARGUMENTS]    ARGUMENTS, such as --seed 2, go to fairseq-train
# To resume after an interruption, run it again.
#   RUN        results (default: runs/quickstart)
#   PRECISION  empty for float32 (default: --bf16 if the processor has bfloat16 instructions)
set -euo pipefail
RUN=${RUN:-runs/quickstart}
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
begin

step "create the corpus"
log python preprocess/cldr.py --dest "$RUN/raw"

step "prepare"
log aiayn prepare -s en -t de --trainpref "$RUN/raw/train" --validpref "$RUN/raw/valid" \
  --testpref "$RUN/raw/test" --destdir "$RUN/data" --merges 2000 --protect-patterns

step "train"
train_small --arch aiayn_tiny --dropout 0 --warmup-updates 500 --max-update 1200 \
  --validate-interval 100 --log-format simple --log-interval 20 "$@"

translate_and_score 5

say <<END

Done. $RUN holds the text, the data, the checkpoints, their average (model.pt) and translation.txt.
To see what the heads attend to, and to write a report on the training run:

  .venv/bin/aiayn attention $RUN --split test --numbers 1 331 996
  .venv/bin/aiayn report $RUN

Next: bash examples/multi30k.sh trains on real sentences; README.md shows how to train the paper's
models.
END

#!/usr/bin/env bash
# From nothing to BLEU, with no data to download: dates, times, numbers, money, measures and lists,
# from English to German. It takes about three minutes on two CPU cores, and as long to set up.
#   bash examples/quickstart.sh    further arguments go to fairseq-train, such as --seed 2
# RUN (default: runs/quickstart) is the directory of all results. PRECISION= trains in float32 where
# the processor has bfloat16. Stopped and started again, it goes on.
set -euo pipefail
RUN=${RUN:-runs/quickstart}
# shellcheck source=examples/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

step "make the corpus"
run python preprocess/cldr.py --dest "$RUN/raw"

step "prepare"
run python preprocess/prepare.py -s en -t de --trainpref "$RUN/raw/train" --validpref "$RUN/raw/valid" \
  --testpref "$RUN/raw/test" --destdir "$RUN/data" --merges 2000 --protect-patterns

step "train (about 2 minutes on two cores)"
train_small --arch aiayn_tiny --dropout 0 --warmup-updates 500 --max-update 1200 \
  --validate-interval 100 --log-format simple "$@"

translate_and_score 5

cat <<END

Done. $RUN holds the text, the data, the checkpoints, their mean (model.pt) and translation.txt.
To see what its heads attend to, and how the training went beside the paper:

  .venv/bin/aiayn attention $RUN --split test --numbers 1 331 996 --output $RUN/attention.html
  .venv/bin/aiayn report $RUN

To go on: bash examples/multi30k.sh trains on real sentences, and README.md says how the paper's
own models are trained.
END

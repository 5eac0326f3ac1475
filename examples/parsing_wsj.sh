#!/usr/bin/env bash
# The paper's parser on the Wall Street Journal only (§6.3; Table 4: F1 91.3).
#   bash examples/parsing_wsj.sh LDC_DIRECTORY
#   bash examples/parsing_wsj.sh LDC_DIRECTORY ARGUMENTS    more arguments for fairseq-train
#   DRY_RUN=1 bash examples/parsing_wsj.sh LDC_DIRECTORY    print the commands without running them
# LDC_DIRECTORY is the Penn Treebank (LDC99T42 or LDC95T7, which need a licence): sections 2 to 21
# for training, 22 for validation, 23 for testing. To resume after an interruption, run it again.
#   RUN         results (default: runs/parsing_wsj)
#   MAX_TOKENS  tokens per batch and device (default: by GPU memory, 12,288 for 24 GiB; CPU 4,096)
#   PRECISION   --bf16, --fp16 or empty for float32 (default: --bf16 on GPUs)
# The paper tuned both dropouts, learning rates and beam size on section 22, and reports only the beam
# size. Here both dropouts are 0.2 and the warm-up has 16,000 updates, as in the setting for this
# experiment in the authors' tensor2tensor; that halves the peak learning rate.
set -euo pipefail
RUN=${RUN:-runs/parsing_wsj}
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ $# -ge 1 ] || die "give the directory of the Penn Treebank"
begin

step "prepare"
run aiayn prepare-trees --wsj "$(from_root "$1")" --destdir "$RUN/data"

step "train (aiayn_parser, WSJ only)"
train_large aiayn_parser --dropout 0.2 --attention-dropout 0.2 --warmup-updates 16000 "${@:2}"

parse_and_score 5
compare "Table 4, WSJ only" "F1 91.3" F1

#!/usr/bin/env bash
# The paper's big model on WMT 2014 en-fr, from the public files to BLEU (Table 2: 41.8).
# Arguments and variables: see wmt14_en_de_base.sh. By default RUN is runs/wmt14_en_fr_big, and DATA
# runs/wmt14_en_fr.
# Expect (estimates, see examples/measurements.md): a download of 6.6 GB, and 1.7 hours to prepare the
# data on two cores, plus learning wordpieces; 6.7 hours of training on one H200 (the paper: 3.5 days
# on eight P100s). Disk: 62 GB for downloads and data, 55 GB for checkpoints.
set -euo pipefail
RUN=${RUN:-runs/wmt14_en_fr_big}
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
begin

prepare_wmt14 en-fr
train_wmt14 aiayn_big_en_fr "$@"
translate_and_score 20
compare "Table 2, aiayn_big_en_fr" "BLEU 41.8" "paper BLEU"

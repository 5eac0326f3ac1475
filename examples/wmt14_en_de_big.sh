#!/usr/bin/env bash
# The paper's big model on WMT 2014 en-de, from the public files to BLEU (Table 2: 28.4).
# Arguments and variables: see wmt14_en_de_base.sh. By default RUN is runs/wmt14_en_de_big, and DATA
# runs/wmt14_en_de.
# Expect (estimates, see examples/measurements.md): a download of 1.7 GB, and 23 minutes to prepare the
# data on two cores; 6.7 hours of training on one H200 (the paper: 3.5 days on eight P100s).
# Disk: 9 GB for downloads and data, 57 GB for checkpoints.
set -euo pipefail
RUN=${RUN:-runs/wmt14_en_de_big}
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
begin

prepare_wmt14 en-de
train_wmt14 aiayn_big "$@"
translate_and_score 20
compare "Table 2, aiayn_big" "BLEU 28.4" "paper BLEU"

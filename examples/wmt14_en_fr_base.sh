#!/usr/bin/env bash
# The paper's base model on WMT 2014 en-fr, from the public files to BLEU (Table 2: 38.1).
# Arguments and variables: see wmt14_en_de_base.sh. By default RUN is runs/wmt14_en_fr_base, and DATA
# runs/wmt14_en_fr.
# Expect (estimates, see examples/measurements.md): a download of 6.6 GB, and 1.7 hours to prepare the
# data on two cores, plus learning wordpieces; 1.1 hours of training on one H200 (the paper: 12 hours
# on eight P100s); two CPU cores would need 41 days in bfloat16, 73 to 108 in float32.
# Disk: 62 GB for downloads and data, 5 GB for checkpoints.
set -euo pipefail
RUN=${RUN:-runs/wmt14_en_fr_base}
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
begin

prepare_wmt14 en-fr
train_wmt14 aiayn_base "$@"
translate_and_score 5
compare "Table 2, aiayn_base" "BLEU 38.1" "paper BLEU"

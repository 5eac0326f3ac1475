#!/usr/bin/env bash
# The paper's base model on WMT 2014 en-de, from the public files to BLEU (Table 2: 27.3).
#   bash examples/wmt14_en_de_base.sh
#   bash examples/wmt14_en_de_base.sh ARGUMENTS     more arguments for fairseq-train
#   DRY_RUN=1 bash examples/wmt14_en_de_base.sh     print the commands without running them
# To resume after an interruption, run it again. All visible GPUs are used; for base, one fast GPU may
# match several (CUDA_VISIBLE_DEVICES=0; see "Compilation" in examples/guide.md).
#   RUN         results (default: runs/wmt14_en_de_base)
#   DATA        downloads and prepared data, shared by base and big (default: runs/wmt14_en_de)
#   MAX_TOKENS  tokens per batch and device (default: by GPU memory, 12,288 for 24 GiB; CPU 4,096)
#   TABLE       your own table of corpora and URLs (default: aiayn_plugin/corpus/wmt14.yaml)
#   PRECISION   --bf16, --fp16 or empty for float32 (default: --bf16 on GPUs)
# Expect (estimates, see examples/measurements.md): a download of 1.7 GB, and 23 minutes to prepare the
# data on two cores; 1.1 hours of training on one H200 (the paper: 12 hours on eight P100s);
# two CPU cores would need 41 days in bfloat16, 73 to 108 in float32. Disk: 9 GB for downloads and
# data, 5 GB for checkpoints.
set -euo pipefail
RUN=${RUN:-runs/wmt14_en_de_base}
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
begin

prepare_wmt14 en-de
train_wmt14 aiayn_base "$@"
translate_and_score 5
compare "Table 2, aiayn_base" "BLEU 27.3" "paper BLEU"

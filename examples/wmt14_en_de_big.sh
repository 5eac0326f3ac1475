#!/usr/bin/env bash
# The paper's big model on WMT 2014 en-de, from the public files to BLEU (Table 2: 28.4).
#   bash examples/wmt14_en_de_big.sh
#   bash examples/wmt14_en_de_big.sh ARGUMENTS     more arguments for fairseq-train
#   DRY_RUN=1 bash examples/wmt14_en_de_big.sh     print every command and run none
# To resume after an interruption, run it again. All visible GPUs are used.
#   RUN         results (default: runs/wmt14_en_de_big)
#   DATA        downloads and prepared data, shared by base and big (default: runs/wmt14_en_de)
#   MAX_TOKENS  tokens per batch and device (default: by GPU memory, 12,288 for 24 GiB; CPU 4,096)
#   TABLE       your own table of corpora and URLs (default: aiayn_plugin/corpus/wmt14.yaml)
#   PRECISION   --bf16, --fp16 or empty for float32 (default: --bf16 on GPUs)
# Expect (estimates, see examples/measurements.md): the download, and 27 minutes to prepare the data on
# two cores; 6.7 hours of training on one H200, where the paper took 3.5 days on eight P100s. Disk: 7
# GB for the data, 57 GB for checkpoints.
set -euo pipefail
RUN=${RUN:-runs/wmt14_en_de_big}
# shellcheck source=examples/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
begin

wmt14 en-de aiayn_big 20 28.4 "$@"

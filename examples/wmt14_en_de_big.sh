#!/usr/bin/env bash
# The paper's big model on WMT 2014 en-de, from the public files to BLEU (Table 2: 28.4).
#   bash examples/wmt14_en_de_big.sh
#   bash examples/wmt14_en_de_big.sh ARGUMENTS     more for fairseq-train, which win
#   DRY_RUN=1 bash examples/wmt14_en_de_big.sh     prints every command and runs none
# Stopped and started again, it goes on. All GPUs that fairseq-train sees are used.
#   RUN         results (default: runs/wmt14_en_de_big)
#   DATA        downloads, stages and data, which base and big share (default: runs/wmt14_en_de)
#   MAX_TOKENS  what one device holds (default: by a GPU's memory, 12,288 for 24 GiB; else 4,096)
#   TABLE       other corpora or addresses than preprocess/wmt14.yaml
#   PRECISION   --bf16, --fp16 or nothing (default: --bf16 on GPUs)
# Expect (estimates; from what: examples/README.md): the download, and 15 minutes for the data on
# two cores; 9 hours of training on one H100, where the paper took 3.5 days on eight P100. Disk: 9
# GB for the data, 55 GB for checkpoints.
set -euo pipefail
RUN=${RUN:-runs/wmt14_en_de_big}
# shellcheck source=examples/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

wmt14 en-de aiayn_big 20 28.4 "$@"

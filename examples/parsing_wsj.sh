#!/usr/bin/env bash
# The paper's parser on the Wall Street Journal only (§6.3; Table 4: F1 91.3).
#   bash examples/parsing_wsj.sh LDC_DIRECTORY
#   bash examples/parsing_wsj.sh LDC_DIRECTORY ARGUMENTS    more for fairseq-train, which win
#   DRY_RUN=1 bash examples/parsing_wsj.sh LDC_DIRECTORY    prints every command and runs none
# LDC_DIRECTORY is the Penn Treebank (LDC99T42 or LDC95T7, for which you need a licence). Training
# is on sections 2 to 21, validation on 22, the test on 23. Stopped and started again, it goes on.
#   RUN         results (default: runs/parsing_wsj)
#   MAX_TOKENS  what one device holds (default: by a GPU's memory, 12,288 for 24 GiB; else 4,096)
#   PRECISION   --bf16, --fp16 or nothing (default: --bf16 on GPUs)
# The paper chose dropout on section 22 and does not say what came out. Here both kinds are 0.2 and
# the warm-up is 16,000, as tensor2tensor, by the paper's authors, had it later.
set -euo pipefail
treebank=$(realpath "${1:?give the directory of the Penn Treebank}")
RUN=${RUN:-runs/parsing_wsj}
# shellcheck source=examples/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# shellcheck disable=SC2034 # wsj takes it by its name
trees=(--wsj "$treebank")
wsj "WSJ only" 91.3 trees "${@:2}"

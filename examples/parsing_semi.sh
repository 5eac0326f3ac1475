#!/usr/bin/env bash
# The paper's parser with further trees, which other parsers made (§6.3, semi-supervised; Table 4:
# F1 92.7). The paper took about 17 million sentences: the high-confidence and BerkeleyParser
# corpora of Vinyals et al. (2015), which were never given away.
#   bash examples/parsing_semi.sh LDC_DIRECTORY TREES…
#   bash examples/parsing_semi.sh LDC_DIRECTORY TREES… -- ARGUMENTS    more for fairseq-train
#   DRY_RUN=1 bash examples/parsing_semi.sh LDC_DIRECTORY TREES…       prints every command
# TREES are files of bracketed trees, or @FILE, whose lines are their paths. For the rest see
# parsing_wsj.sh.
#   RUN     results (default: runs/parsing_semi)
#   WEIGHT  how often each of the further trees is taken (default: 1)
set -euo pipefail
treebank=$(realpath "${1:?give the directory of the Penn Treebank, then files of trees}")
: "${2:?give files of trees after the directory of the Penn Treebank}"
RUN=${RUN:-runs/parsing_semi}
further=()
for path in "${@:2}"; do
  [ "$path" != -- ] || break
  case $path in
    @*) further+=("@$(realpath "${path#@}")") ;;
    *) further+=("$(realpath "$path")") ;;
  esac
done
# shellcheck source=examples/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# shellcheck disable=SC2034 # wsj takes it by its name
trees=(--wsj "$treebank" --extra "${WEIGHT:-1}" "${further[@]}")
wsj semi-supervised 92.7 trees "${@:3 + ${#further[@]}}"

#!/usr/bin/env bash
# The paper's parser with extra trees, predicted by parsers (§6.3, semi-supervised; Table 4: F1 92.7).
# The paper used about 17 million sentences: the high-confidence and BerkeleyParser corpora of Vinyals
# et al. (2015), which have not been published.
#   bash examples/parsing_semi.sh LDC_DIRECTORY TREES...
#   bash examples/parsing_semi.sh LDC_DIRECTORY TREES... -- ARGUMENTS    more arguments for fairseq-train
#   DRY_RUN=1 bash examples/parsing_semi.sh LDC_DIRECTORY TREES...    print the commands without running
# TREES are files of bracketed trees, or @FILE, a list of their paths, one per line, relative to the
# project's root.
#   RUN     results (default: runs/parsing_semi)
#   WEIGHT  number of times that each extra tree is used (default: 1)
# LDC_DIRECTORY and the other variables: see parsing_wsj.sh.
set -euo pipefail
RUN=${RUN:-runs/parsing_semi}
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ $# -ge 2 ] || die "give the directory of the Penn Treebank, then files of trees"
begin

extra=()
for path in "${@:2}"; do
  [ "$path" != -- ] || break
  case $path in
    @*) extra+=("@$(from_root "${path#@}")") ;;
    *) extra+=("$(from_root "$path")") ;;
  esac
done

step "prepare"
run aiayn prepare-trees --wsj "$(from_root "$1")" --extra "${WEIGHT:-1}" "${extra[@]}" \
  --destdir "$RUN/data"

step "train (aiayn_parser, semi-supervised)"
train_large aiayn_parser "${@:3 + ${#extra[@]}}"

parse_and_score 5
compare "Table 4, semi-supervised" "F1 92.7" F1

#!/usr/bin/env bash
# A parser (§6.3) trained on free treebanks, on two CPU cores. The gold trees are NLTK's sample of the
# Penn Treebank (3,914 trees; the last 392 are the test set, the 391 before them the validation set);
# the extra trees are those of GUM, predicted by a parser. Trains once on the gold trees alone and once
# on both.
#   bash examples/parsing_sample.sh              download the trees
#   bash examples/parsing_sample.sh DIRECTORY    use its ptb_sample/wsj_sample.mrg and gum/const/*.ptb
#   DRY_RUN=1 bash examples/parsing_sample.sh    print every command and run none
# To resume after an interruption, run it again.
#   RUN    results (default: runs/parsing_sample): RUN/wsj for the gold trees alone, RUN/semi for both;
#          RUN itself links to the model of both
set -euo pipefail
TOP=${RUN:-runs/parsing_sample}
RUN=$TOP
# shellcheck source=examples/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

step "get the trees"
get treebanks "${1:+$(from_root "$1")}"

# one_run NAME EXPERIMENT DROPOUT UPDATES F1 OPTIONS: train, parse and score in $TOP/NAME.
one_run() {
  RUN=$TOP/$1
  run mkdir -p "$RUN"
  step "prepare ($2)"
  run aiayn prepare-trees --train "$TOP/raw/wsj_sample.mrg" --hold-out 391 392 \
    --destdir "$RUN/data" --vocabulary 8000 "${@:6}"
  step "train ($2)"
  # With few layers and small updates, attention aligns tags and words after fewer sentences.
  train --arch aiayn_parser_tiny --N 2 --dropout "$3" --tokens-per-update 1000 --max-update "$4" \
    --warmup-updates 2000 --save-interval-updates 500 --validate-interval-updates 500 \
    --validate-interval 1000 --log-format simple --log-interval 100
  parse_and_score 5
  step "parse and score with the search restricted to trees"
  save_output "$RUN/trees_only.log" fairseq-generate "$RUN/data" --user-dir aiayn_plugin \
    --path "$RUN/model.pt" --max-tokens 2000 --trees-only
  run aiayn score "$RUN/trees_only.log" --data "$RUN/data"
  printf '\nThe paper, with all of the Wall Street Journal (Table 4, %s): F1 %s.\n' "$2" "$5" | say
}

one_run wsj "WSJ only" 0.3 20000 91.3
one_run semi semi-supervised 0.2 30000 92.7 --weight 2 --extra 1 "@$TOP/raw/gum.txt"
for name in data model.pt; do run ln -sfn "semi/$name" "$TOP/$name"; done

step "parse"
sentence="The dog that I saw sleeps ."
[ -z "${DRY_RUN:-}" ] || printf 'echo %q | ' "$sentence"
run aiayn parse "$TOP" --pretty <<<"$sentence"

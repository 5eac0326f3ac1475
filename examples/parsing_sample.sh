#!/usr/bin/env bash
# A parser (§6.3) trained on free treebanks, on two CPU cores. The Wall Street Journal trees are NLTK's sample of
# the Penn Treebank: 3,914 gold trees, of which the last 392 are the test set and the 391 before them the
# validation set. The extra trees, mapped to WSJ labels, are the gold trees of CRAFT, GENIA and MASC and
# the predicted ones of GUM. Training on all trees takes 1.7 hours on two CPU cores with bfloat16, 3.7 without.
#   bash examples/parsing_sample.sh              download the trees
#   bash examples/parsing_sample.sh DIRECTORY    use its ptb_sample/wsj_sample.mrg, gum/const/*.ptb and
#                                                treebanks/{craft/train,genia/train,masc/masc}.ptb
#   DRY_RUN=1 bash examples/parsing_sample.sh    print the commands without running them
# To resume after an interruption, run it again.
#   RUN        results (default: runs/parsing_sample): RUN/MODEL for each model
#   MODELS     semi: all trees; wsj: those of the Wall Street Journal alone; both with recombined WSJ
#              trees (default: "wsj semi"); the last model parses the examples, and RUN links to
#              its data and model.pt
#   PRECISION  empty for float32 (default: --bf16 if the processor has bfloat16 instructions)
set -euo pipefail
TOP=${RUN:-runs/parsing_sample}
RUN=$TOP
MODELS=${MODELS:-wsj semi}
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
only_directory "$@"
for model in $MODELS; do check_choice MODELS "$model" "wsj semi"; done
begin

step "get the trees"
get treebanks "${1:-}"

raw=$TOP/raw
for model in $MODELS; do
  case $model in
    wsj)
      experiment="WSJ only"
      trees=(--weight 4 --recombine 20 --vocabulary 8000)
      settings=(--dropout 0.2 --max-update 8000)
      ;;
    semi)
      experiment=semi-supervised
      trees=(--weight 4 --extra 1 "@$raw/gum.txt" "$raw/craft.ptb" "$raw/genia.ptb" "$raw/masc.ptb"
        --wsj-labels --recombine 10 --vocabulary 16000)
      settings=(--max-update 14000)
      ;;
  esac
  RUN=$TOP/$model
  run mkdir -p "$RUN"
  step "prepare ($experiment)"
  run aiayn prepare-trees --train "$raw/wsj_sample.mrg" --hold-out 391 392 --destdir "$RUN/data" \
    "${trees[@]}"
  step "train ($experiment)"
  train_small --arch aiayn_parser_tiny --N 3 --d-model 256 --d-ff 1024 --h 8 \
    --tokens-per-update 3000 --warmup-updates 2000 "${settings[@]}" \
    --save-interval-updates 500 --keep-interval-updates 10 --validate-interval-updates 500 \
    --validate-interval 1000 --log-format simple --log-interval 100
  parse_and_score 10
  step "parse and score with the search restricted to trees"
  parse "$RUN/trees_only.log" --trees-only
  run aiayn score "$RUN/trees_only.log" --data "$RUN/data" --json "$RUN/trees_only.json"
done
for name in data model.pt; do run ln -sfnT "$model/$name" "$TOP/$name"; done

step "parse"
sentence="The girl who sings lives in Paris ."
pipe "$sentence" run aiayn parse "$TOP" --pretty

step "parse and score ten plain sentences"
plain=examples/plain_sentences.mrg
# The words, without the brackets.
sentences=$(sed -E 's/\([^ ()]* ([^ ()]+)\)/\1/g; s/\([^ ()]*|\)//g' "$plain")
pipe "$sentences" save_output "$TOP/plain_sentences.mrg" aiayn parse "$TOP" --tokenised
run aiayn score --trees "$plain" "$TOP/plain_sentences.mrg"

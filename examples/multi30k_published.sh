#!/usr/bin/env bash
# A published result on its authors' data: Multi30k, English to German, as preprocessed by Wu et al.
# (ACL 2021, arXiv 2105.14462), who report BLEU4 = 41.02 on test.2016 for fairseq's transformer_tiny.
# Trains fairseq's model with their command, and the plugin's model of the same size (4+4 layers,
# d_model 128, d_ff 256, h 4), with several seeds, and scores both as they do. On two CPU cores a seed of
# the plugin's model takes an hour in bfloat16, and two to three in float32; fairseq's takes four.
#   bash examples/multi30k_published.sh            download the text from github.com/LividWo/Revisit-MMT
#   bash examples/multi30k_published.sh DIRECTORY  use its {train,valid,test.2016}.{en,de}
# To resume after an interruption, run it again.
#   RUN        results (default: runs/multi30k_published): RUN/MODEL-SEED for each model and seed,
#              and RUN/ensemble
#   MODELS     published: the plugin's model with their settings; ensemble: an ensemble of the published
#              models of all SEEDS; paper: with the learning rate and search of Vaswani et al.;
#              fairseq: their model (default: "published ensemble paper fairseq")
#   SEEDS      random seeds (default: "1 2 3")
#   SPLIT      valid or test (default: valid)
#   PRECISION  of the plugin's models: empty for float32 (default: --bf16 if the processor has
#              bfloat16 instructions)
set -euo pipefail
TOP=${RUN:-runs/multi30k_published}
RUN=$TOP
MODELS=${MODELS:-published ensemble paper fairseq} SEEDS=${SEEDS:-1 2 3} SPLIT=${SPLIT:-valid}
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
only_directory "$@"
for model in $MODELS; do check_choice MODELS "$model" "published ensemble paper fairseq"; done
check_choice SPLIT "$SPLIT" "valid test"
begin

step "get the text"
get published "${1:-}"
step "prepare"
if [ ! -d "$TOP/data" ]; then # fairseq-preprocess does not replace its dictionaries
  run rm -rf "$TOP/data.part"
  log fairseq-preprocess -s en -t de --joined-dictionary --trainpref "$TOP/raw/train" \
    --validpref "$TOP/raw/valid" --testpref "$TOP/raw/test.2016" --destdir "$TOP/data.part"
  run mv "$TOP/data.part" "$TOP/data"
fi

# Their command, without the options that are defaults. Two processes replace their two GPUs; a single
# process computes two batches per update.
batches=(--max-tokens 4096 --update-freq 1)
if has_gpu || [ "$(count_cores)" = 1 ]; then
  batches=(--max-tokens 4096 --update-freq 2 --distributed-world-size 1)
fi
common=(--dropout 0.3 --warmup-updates 2000 --max-update 8000 --patience 10 --keep-last-epochs 10
  --save-interval-updates 0 --log-format simple --log-interval 50)
their_rate=(--lr-scheduler inverse_sqrt --lr 0.005 --warmup-init-lr 1e-7)
their_search=(--beam 5 --lenpen 1 --length-penalty fairseq)
declare -A size=(
  [plugin]="--arch aiayn_tiny --N 4 --d-model 128 --d-ff 256 --h 4"
  [fairseq]="--arch transformer --share-all-embeddings
    --encoder-layers 4 --encoder-embed-dim 128 --encoder-ffn-embed-dim 256
    --decoder-layers 4 --decoder-embed-dim 128 --decoder-ffn-embed-dim 256
    --encoder-attention-heads 4 --decoder-attention-heads 4"
)

# train_model MODEL SEED: train $RUN.
train_model() {
  local arguments=("${batches[@]}" "${common[@]}" --seed "$2")
  # shellcheck disable=SC2086 # words of the size
  case $1 in
    published) train_small ${size[plugin]} "${arguments[@]}" "${their_rate[@]}" ;;
    paper) train_small ${size[plugin]} "${arguments[@]}" ;;
    fairseq) PRECISION='' train_small --task translation ${size[fairseq]} "${arguments[@]}" \
      "${their_rate[@]}" --optimizer adam --adam-betas "(0.9, 0.98)" \
      --criterion label_smoothed_cross_entropy --label-smoothing 0.1 ;;
  esac
}

# score MODEL PATHS: translate with the model, or with an ensemble, and print BLEU4.
score() {
  local search=("${their_search[@]}")
  [ "$1" != paper ] || search=()
  # fairseq-fixed would leave out the last batch of valid, whose size is not a multiple of 8.
  [ "$1" != fairseq ] ||
    search=(--task translation --beam 5 --lenpen 1 --required-batch-size-multiple 1)
  save_output "$RUN/$SPLIT.log" fairseq-generate "$TOP/data" --user-dir aiayn_plugin --path "$2" \
    --gen-subset "$SPLIT" "${search[@]}" --remove-bpe --batch-size 128
  run tail -n 1 "$RUN/$SPLIT.log"
}

for model in $MODELS; do
  if [ "$model" = ensemble ]; then
    step "translate with an ensemble of seeds $SEEDS"
    RUN=$TOP/ensemble
    run mkdir -p "$RUN"
    paths=
    for seed in $SEEDS; do paths+=:$TOP/published-$seed/model.pt; done
    score ensemble "${paths#:}"
    continue
  fi
  for seed in $SEEDS; do
    RUN=$TOP/$model-$seed
    run mkdir -p "$RUN"
    DATA=$TOP share_data
    if [ ! -f "$RUN/model.pt" ]; then
      if [ ! -f "$RUN/trained" ]; then # after --patience, fairseq's own task would resume
        step "train $model, seed $seed"
        train_model "$model" "$seed"
        run touch "$RUN/trained"
      fi
      run aiayn average --inputs "$RUN/checkpoints" --num-epoch-checkpoints 10 --output "$RUN/model.pt"
    fi
    score "$model" "$RUN/model.pt"
  done
done

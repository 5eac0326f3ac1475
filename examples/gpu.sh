#!/usr/bin/env bash
# Benchmark a GPU: training and translating compared with fairseq's own model in half precision, and
# training curves of each precision. Needs a GPU with about 80 GB (the first one, or
# CUDA_VISIBLE_DEVICES), and no network. Every part has run on an H100, but not all of them in one run,
# and not with the current code.
#   bash examples/gpu.sh [DATA]            DATA: a prepared directory (default: runs/quickstart/data)
#   bash examples/gpu.sh --trial [DATA]    the same at a small size on the CPU, to test this script
# Uses .venv or any python3 that has fairseq and torch. Each benchmark writes a table and a JSON
# file, and each training run a directory, to RUN (default: runs/gpu, or runs/gpu_trial). When rerun
# after an interruption, it skips finished parts.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export PATH=$PWD/.venv/bin:$PATH PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
export PYTHONWARNINGS=${PYTHONWARNINGS:-ignore}
# idle threads sleep; GPU memory segments grow, as in lib.sh
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE}
export PYTORCH_ALLOC_CONF=${PYTORCH_ALLOC_CONF:-expandable_segments:True}

trial=
if [ "${1:-}" = --trial ]; then
  trial=yes
  shift
fi
RUN=${RUN:-runs/gpu${trial:+_trial}}
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES-0} # one GPU, unless the caller chose
mkdir -p "$RUN"
DATA=runs/quickstart/data
[ -z "${1:-}" ] || DATA=$(from_root "$1")
[ -d "$DATA" ] || die "no data in $DATA: pass a prepared directory"
python3 -c 'import fairseq, torch' || die "python3 lacks fairseq or torch: run examples/setup.sh"
[ -n "$trial" ] || python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' ||
  die "torch finds no GPU; --trial runs on the CPU"

aiayn() { python3 -m aiayn_plugin.cli "$@"; }

# part NAME COMMAND: write a benchmark's table to NAME.txt and its JSON to NAME.json.
part() {
  local name=$1
  shift
  [ -f "$RUN/$name.json" ] && return
  step "$name"
  aiayn benchmark "$@" --output "$RUN/$name.json" 2>&1 | tee "$RUN/$name.txt"
}

sizes=(base big)
half=(--precisions bf16 fp16 --fairseq-precisions fp16 amp memory-efficient-fp16 --updates 5
  --max-tokens 25000 --memory-tokens 25000 --profile)
share=(--precisions bf16 --fairseq-precisions fp16 --updates 5 --max-tokens 3125 --memory-tokens 3125)
less=(--precisions bf16 --fairseq-precisions fp16 --runs 3)
model=(--arch aiayn_base --max-update 400 --warmup-updates 200 --bf16)
search=(--precisions bf16 --fairseq-precision fp16 --batch-sizes 256 1024 --runs 5)
precisions=(bf16 fp16 float32)
curve=(--arch aiayn_base --max-update 500 --warmup-updates 1000 --tokens-per-update 4096)
if [ -n "$trial" ]; then
  sizes=(base)
  half=(--updates 1 --runs 1 --max-tokens 200 --memory-tokens 200 --profile --cpu)
  less=()
  share=(--updates 1 --runs 1 --max-tokens 100 --memory-tokens 100 --cpu)
  model=(--arch aiayn_tiny --dropout 0 --max-update 300 --warmup-updates 100 --cpu)
  search=(--batch-sizes 64 --runs 1 --cpu)
  precisions=(bf16 float32)
  curve=(--arch aiayn_tiny --max-update 20 --cpu)
fi

for size in "${sizes[@]}"; do
  part "train_$size" train --size "$size" "${half[@]}"
done

# The share of an update of 25,000 tokens that each of eight GPUs computes, without the all-reduce.
part train_share train --size base "${share[@]}"

part "train_${sizes[-1]}_checkpointed" train --size "${sizes[-1]}" --checkpoint-activations \
  "${half[@]}" "${less[@]}"

# train NAME ARGUMENTS: train in RUN/NAME, or resume, unless the run has finished.
train() {
  local folder=$RUN/$1
  mkdir -p "$folder"
  step "$1"
  python3 -m fairseq_cli.train "$DATA" --user-dir aiayn_plugin --save-dir "$folder/checkpoints" \
    --no-epoch-checkpoints --save-interval-updates 0 --log-format simple "${@:2}" \
    >>"$folder/train.log" 2>&1 || {
    tail -n 20 "$folder/train.log" >&2
    exit 1
  }
}

for precision in "${precisions[@]}"; do
  flag=--$precision
  [ "$precision" != float32 ] || flag=
  # shellcheck disable=SC2086 # float32 needs no flag
  train "curve_$precision" "${curve[@]}" --log-interval 10 $flag
done
aiayn report "$RUN"/curve_* --output "$RUN/curves"

# A model trained long enough to end its sentences, converted for both systems.
if [ ! -f "$RUN/fairseq.pt" ]; then
  train model --positions fairseq --tokens-per-update 4096 --disable-validation \
    --log-interval 100 "${model[@]}"
  aiayn average --inputs "$RUN/model/checkpoints/checkpoint_last.pt" --output "$RUN/model.pt"
  aiayn convert --input "$RUN/model.pt" --output "$RUN/fairseq.pt"
fi
part translate translate "$DATA" --fairseq-model "$RUN/fairseq.pt" --plugin-model "$RUN/model.pt" \
  --gen-subset test "${search[@]}"
printf '\ngpu.sh: done after %d min %02d s; the tables are in %s\n' \
  $((SECONDS / 60)) $((SECONDS % 60)) "$RUN"

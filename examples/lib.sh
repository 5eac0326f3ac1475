# What the recipes share. A recipe sets RUN, its directory, and sources this file. With DRY_RUN=1
# it prints every command and runs none. PREPARE has more options for the program that prepares the
# data, such as --protect-patterns.
# shellcheck shell=bash
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

# run COMMAND: runs it, or prints it.
run() {
  if [ -n "${DRY_RUN:-}" ]; then
    printf '%q ' "$@" && echo
  else
    "$@"
  fi
}

# into FILE COMMAND: runs it with its output in a file, which is there once the command has ended.
into() {
  if [ -n "${DRY_RUN:-}" ]; then
    printf '%q ' "${@:2}" && printf '> %q\n' "$1"
  else
    "${@:2}" >"$1.part" && mv "$1.part" "$1"
  fi
}

run bash examples/setup.sh
export PATH=$PWD/.venv/bin:$PATH
# Threads that wait asleep: with small matrices the others would spend more time spinning than
# computing, above all where another process wants a core.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE}
# glibc keeps the memory of tensors, in huge pages, instead of asking the kernel for it again and
# again.
tunables=hugetlb=1:mmap_threshold=33554432:trim_threshold=8589934592:top_pad=268435456
export GLIBC_TUNABLES=${GLIBC_TUNABLES:-glibc.malloc.${tunables//:/:glibc.malloc.}}
# On a GPU, blocks of memory that grow: each batch has lengths of its own, and the blocks of one
# rarely fit the next.
export PYTORCH_ALLOC_CONF=${PYTORCH_ALLOC_CONF:-expandable_segments:True}
# fairseq is no longer kept up: Python and its libraries warn of much that is not ours to change.
export PYTHONWARNINGS=${PYTHONWARNINGS:-ignore}

run mkdir -p "$RUN"

step() { printf '\n=== %s (after %d min %02d s)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }

# share_data: lets $RUN/data be $DATA/data, which several runs share.
share_data() { run ln -sfn "$(realpath -m "$DATA")/data" "$RUN/data"; }

# train ARGUMENTS: trains on $RUN/data; started again, it goes on at the last checkpoint, and a run
# that has its updates takes none. LAUNCHER: the words of a command that starts it, such as torchrun.
train() {
  # shellcheck disable=SC2086 # the words of a command, or none
  run ${LAUNCHER:-} fairseq-train "$RUN/data" --user-dir aiayn_plugin --save-dir "$RUN/checkpoints" "$@" |
    if [ -n "${DRY_RUN:-}" ]; then cat; else tee -a "$RUN/train.log"; fi
}

# train_small ARGUMENTS: train, for a model whose operations are too small to share among threads: on
# a CPU two processes, each with half of the cores and half of an update, take two thirds of the time
# of one on an EPYC, and nearly as long on a Xeon. Where the processor has instructions for it,
# products are in bfloat16 (PRECISION= for none).
train_small() {
  local precision cores
  precision=$(gpu_precision)
  if ! has_gpu; then
    [ -n "${PRECISION+set}" ] || ! grep -qsw -e avx512_bf16 -e amx_bf16 /proc/cpuinfo ||
      precision=--bf16
    cores=$(getconf _NPROCESSORS_ONLN)
    [ "$cores" = 1 ] || local -x OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores / 2))} \
      LAUNCHER="torchrun --standalone --nproc_per_node 2 --no-python"
  fi
  # shellcheck disable=SC2086 # no precision is no argument
  train "$@" $precision
}

# translate SPLIT MODEL FILE: translates a split of $RUN/data by the paper's search (§6.1).
translate() {
  into "$3" fairseq-generate "$RUN/data" --user-dir aiayn_plugin \
    --path "$2" --gen-subset "$1" --beam 4 --lenpen 0.6 --batch-size 64
}

# translate_and_score N: translates the test set with the mean of the last N checkpoints.
translate_and_score() {
  step "average the last $1 checkpoints"
  run aiayn average --inputs "$RUN/checkpoints" --num-update-checkpoints "$1" \
    --output "$RUN/model.pt"
  step "translate the test set"
  translate test "$RUN/model.pt" "$RUN/generate.log"
  step "score"
  run aiayn score "$RUN/generate.log" --data "$RUN/data" --output "$RUN/translation.txt" \
    --examples 4
}

# parse_and_score N: parses the test set with the mean of the last N checkpoints, by the
# paper's search of trees (§6.3), which fairseq-generate takes by itself for data that is trees.
parse_and_score() {
  step "average the last $1 checkpoints"
  run aiayn average --inputs "$RUN/checkpoints" --num-update-checkpoints "$1" \
    --output "$RUN/model.pt"
  step "parse the test set"
  into "$RUN/generate.log" fairseq-generate "$RUN/data" --user-dir aiayn_plugin \
    --path "$RUN/model.pt" --max-tokens 2000
  step "score"
  run aiayn score "$RUN/generate.log" --data "$RUN/data" --output "$RUN/trees.txt"
}

# wsj EXPERIMENT F1 OPTIONS ARGUMENTS: one of the paper's two runs of §6.3. OPTIONS: an array of
# those for trees.py; the arguments are more for fairseq-train.
wsj() {
  local precision experiment=$1 f1=$2
  local -n options=$3
  precision=$(gpu_precision)
  step "prepare"
  run python preprocess/trees.py "${options[@]}" --destdir "$RUN/data"
  step "train (aiayn_parser, $experiment)"
  # shellcheck disable=SC2086 # no precision is no argument
  train --arch aiayn_parser --dropout 0.2 --attention-dropout 0.2 --warmup-updates 16000 \
    --max-tokens "$(device_tokens)" $precision --log-format simple --log-interval 100 "${@:4}"
  parse_and_score 5
  printf '\nThe paper (Table 4, %s): F1 %s, to compare with the F1 above.\n' "$experiment" "$f1"
}

MULTI30K_URL=https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw

# Of Multi30k's uncompressed text, with the names under which prepare.py gets it.
multi30k_checksums() {
  sed 's/^ *//' <<SUMS
    460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6  train.en
    2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72  train.de
    1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227  valid.en
    660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660  valid.de
    399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182  test.en
    4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16  test.de
SUMS
}

# multi30k_text DIRECTORY: puts Multi30k's text into $RUN/raw, from the directory or the network.
multi30k_text() {
  mkdir -p "$RUN/raw"
  local name public
  for name in {train,valid,test}.{en,de}; do
    [ -f "$RUN/raw/$name" ] && continue
    public=${name/valid/val}
    public=${public/test/test_2016_flickr}
    if [ -n "$1" ]; then
      cp "$1/$public" "$RUN/raw/$name.part"
    else
      curl --fail --location --retry 5 --progress-bar "$MULTI30K_URL/$public.gz" |
        gzip -dc >"$RUN/raw/$name.part"
    fi
    mv "$RUN/raw/$name.part" "$RUN/raw/$name"
  done
  (cd "$RUN/raw" && multi30k_checksums | sha256sum --check --quiet) || {
    echo "${0##*/}: error: the text in $RUN/raw is not Multi30k's: delete it, start again" >&2
    exit 1
  }
}

# multi30k DIRECTORY MERGES: gets Multi30k's text, from the directory or, if that is empty, from the
# network, and prepares it in $RUN/data, with so many merges of BPE.
multi30k() {
  step "get the text"
  [ -n "${DRY_RUN:-}" ] || multi30k_text "$1"
  step "prepare"
  # shellcheck disable=SC2086 # no option is no argument
  run python preprocess/prepare.py -s en -t de --trainpref "$RUN/raw/train" \
    --validpref "$RUN/raw/valid" --testpref "$RUN/raw/test" --destdir "$RUN/data" \
    --merges "$2" ${PREPARE:-}
}

PTB_SAMPLE_URL=https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/treebank.zip
GUM_COMMIT=72ce5ac14978a324c2fd18d49484e65292cbe316

# same_trees SHA256 FILES: whether these are the trees, whatever the space between their brackets.
same_trees() {
  local found
  found=$(cat "${@:2}" | tr -s '[:space:]' ' ' | sed 's/^ //; s/ $//' | sha256sum)
  [ "${found%% *}" = "$1" ] || {
    echo "${0##*/}: error: the trees in $(dirname "$2") are others than this recipe knows: delete" \
      "$RUN/raw, start again" >&2
    exit 1
  }
}

# treebanks DIRECTORY: puts the sample of the Penn Treebank and GUM into $RUN/raw, from the
# directory or, if that is empty, from the network. GUM's texts of Reddit have no words.
treebanks() {
  local raw=$RUN/raw part=$RUN/raw.part
  if [ ! -d "$raw" ]; then
    rm -rf "$part"
    mkdir -p "$part/gum"
    if [ -n "$1" ]; then
      cp "$1/ptb_sample/wsj_sample.mrg" "$part"
      cp "$1"/gum/const/*.ptb "$part/gum"
    else
      curl --fail --location --retry 5 --progress-bar --output "$part/treebank.zip" "$PTB_SAMPLE_URL"
      python -m zipfile -e "$part/treebank.zip" "$part"
      cat "$part"/treebank/combined/wsj_*.mrg >"$part/wsj_sample.mrg"
      curl --fail --location --retry 5 --progress-bar \
        "https://codeload.github.com/amir-zeldes/gum/tar.gz/$GUM_COMMIT" |
        tar -xz -C "$part/gum" --strip-components 2 --wildcards '*/const/*.ptb'
      rm -rf "$part/treebank" "$part/treebank.zip"
    fi
    rm -f "$part"/gum/*_reddit_*.ptb
    mv "$part" "$raw"
  fi
  (
    export LC_ALL=C # the order of the files
    same_trees 74f1512a2740a6b82c3c1ec38a6472bdb5802278af8cb57ebed78ead3010e25b "$raw/wsj_sample.mrg"
    same_trees 285dab02c165886dc38729bde726cf2d963edbafb972fc9c17245dfb081519b8 "$raw"/gum/*.ptb
  )
}

# wmt14_data PAIR: gets the data of WMT 2014 and prepares it in $DATA/data.
wmt14_data() {
  DATA=${DATA:-runs/wmt14_${1/-/_}}
  step "get and prepare the data, in $DATA"
  # shellcheck disable=SC2086 # no option is no argument
  run python preprocess/wmt14.py "$1" --dest "$DATA" ${TABLE:+--table "$TABLE"} ${PREPARE:-}
}

# wmt14_train ARCH ARGUMENTS: the paper's training, in $RUN, on $DATA/data.
wmt14_train() {
  local precision
  precision=$(gpu_precision)
  share_data
  step "train ($1, 25,000 target tokens an update whatever the devices)"
  # shellcheck disable=SC2086 # no precision is no argument
  train --arch "$1" --max-tokens "$(device_tokens)" $precision \
    --log-format simple --log-interval 100 "${@:2}"
}

# wmt14 PAIR ARCH CHECKPOINTS BLEU ARGUMENTS: the paper's run on WMT 2014, and its row of Table 2.
wmt14() {
  wmt14_data "$1"
  wmt14_train "$2" "${@:5}"
  translate_and_score "$3"
  printf '\nThe paper (Table 2, %s): BLEU %s, to compare with the paper BLEU above.\n' "$2" "$4"
}

# device_tokens: MAX_TOKENS, or what one device holds: a token for each 2 MiB of the smallest GPU,
# up to a whole update of 25,000 and its padding. For a token of each side the big model keeps 0.44
# MiB in bfloat16 and 0.74 in float32 until the backward pass. 4,096 where there is no GPU.
device_tokens() {
  local memory
  memory=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits 2>/dev/null |
    sort -n | head -n 1) || true
  case $memory in
    "" | *[!0-9]*) memory=8192 ;;
  esac
  echo "${MAX_TOKENS:-$((memory / 2 > 30000 ? 30000 : memory / 2))}"
}

has_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; }

# gpu_precision: PRECISION if it is set; else --bf16 on a GPU, or --fp16 if one is too old to have
# bfloat16 (a capability below 8.0, such as a V100's 7.0); and nothing without a GPU.
gpu_precision() {
  local capability
  if [ -n "${PRECISION+set}" ] || ! has_gpu; then
    echo "${PRECISION:-}"
    return
  fi
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
    sort -n | head -n 1) || true
  case $capability in
    [1-7].*) echo --fp16 ;;
    *) echo --bf16 ;;
  esac
}

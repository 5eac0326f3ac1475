# Functions of the recipes. A recipe sets RUN, its directory, and sources this file. DRY_RUN=1 prints
# every command, for a shell in the project's root, and runs none. PREPARE holds extra options for aiayn
# prepare (multi30k.sh, tatoeba.sh, table3.sh) or aiayn wmt14, such as --protect-patterns. A recipe may
# define check_choices, which is called before anything runs.
# shellcheck shell=bash
unset CDPATH
start=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
trap 'exit 130' INT # some commands handle Ctrl-C themselves, so bash alone would continue

# run COMMAND: run or print it.
run() {
  if [ -n "${DRY_RUN:-}" ]; then
    printf '%q ' "$@" && echo
  else
    "$@"
  fi
}

# show_progress: write the output of a command to $RUN/train.log, and show its progress, warnings and
# errors.
show_progress() { python examples/progress.py "$RUN/train.log"; }

# log COMMAND: run it with its output in the log, or print it.
log() {
  if [ -n "${DRY_RUN:-}" ]; then run "$@"; else "$@" 2>&1 | show_progress; fi
}

# save_output FILE COMMAND: run it, and write its output to a file once it has succeeded.
save_output() {
  if [ -n "${DRY_RUN:-}" ]; then
    printf '%q ' "${@:2}" && printf '> %q\n' "$1"
  else
    "${@:2}" 2>&1 >"$1.part" | show_progress && mv "$1.part" "$1"
  fi
}

# say: print standard input; as comments if commands are only printed.
say() { if [ -n "${DRY_RUN:-}" ]; then sed 's/^./# &/'; else cat; fi; }

# from_root PATH: convert a path from the caller's directory: relative to the root if it is below it.
from_root() {
  local root=$PWD
  (cd "$start" && realpath -m --relative-base "$root" "$1")
}

# choose NAME VALUES CHOICES: fail unless each of the values of the variable NAME is one of the choices.
choose() {
  local value
  for value in $2; do
    [[ " $3 " == *" $value "* ]] || {
      echo "${0##*/}: error: $1=$value: choose from $3" >&2
      exit 1
    }
  done
}

if declare -F check_choices >/dev/null; then check_choices; fi

# The user's paths are relative to the caller's directory.
DATA=${DATA:+$(from_root "$DATA")}
TABLE=${TABLE:+$(from_root "$TABLE")}

run bash examples/setup.sh
[ -z "${DRY_RUN:-}" ] || echo "export PATH=\"\$PWD/.venv/bin:\$PATH\""
export PATH=$PWD/.venv/bin:$PATH
# glibc keeps freed tensors' memory, in huge pages, instead of returning it to the kernel.
tunables=hugetlb=1:mmap_threshold=33554432:trim_threshold=8589934592:top_pad=268435456
export GLIBC_TUNABLES=${GLIBC_TUNABLES:-glibc.malloc.${tunables//:/:glibc.malloc.}}
# On a GPU, let memory blocks grow: batches differ in length, so one's blocks rarely fit the next.
export PYTORCH_ALLOC_CONF=${PYTORCH_ALLOC_CONF:-expandable_segments:True}
# Seconds that torchrun waits after Ctrl-C for the end of an update.
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=${TORCH_ELASTIC_SHUTDOWN_TIMEOUT:-600}
# fairseq is unmaintained: Python and its libraries warn about code we cannot change.
export PYTHONWARNINGS=${PYTHONWARNINGS:-ignore}

run mkdir -p "$RUN"

step() { printf '\n=== %s (after %d min %02d s)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)) | say; }

# share_data: link $RUN/data to $DATA/data, which several runs share.
share_data() { run ln -sfnr "$DATA/data" "$RUN/data"; }

# train ARGUMENTS: train on $RUN/data, or resume from the last checkpoint; a finished run does
# nothing. LAUNCHER is a command that starts it, such as torchrun; train_small sets its own on a CPU.
train() {
  # shellcheck disable=SC2086 # LAUNCHER is a command with arguments, or empty
  log ${LAUNCHER:-} fairseq-train "$RUN/data" --user-dir aiayn_plugin --save-dir "$RUN/checkpoints" "$@"
}

# train_small ARGUMENTS: train a model whose operations are too small to split over threads. On a CPU,
# two processes each take half of the cores and half of an update. Processors with bfloat16
# instructions use bfloat16 (PRECISION= for float32).
train_small() {
  local precision cores
  precision=$(gpu_precision)
  if ! has_gpu; then
    [ -n "${PRECISION+set}" ] || ! grep -qsw -e avx512_bf16 -e amx_bf16 /proc/cpuinfo ||
      precision=--bf16
    cores=$(count_cores)
    [ "$cores" = 1 ] || local LAUNCHER="env OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores / 2))} \
      torchrun --standalone --nproc_per_node 2 --no-python"
  fi
  # shellcheck disable=SC2086 # an empty precision is not an argument
  train "$@" $precision
}

# translate SPLIT MODEL FILE: translate a split of $RUN/data with the paper's search (§6.1).
translate() {
  save_output "$3" fairseq-generate "$RUN/data" --user-dir aiayn_plugin \
    --path "$2" --gen-subset "$1" --beam 4 --lenpen 0.6 --batch-size 64
}

# translate_text SOURCE OUTPUT OPTIONS: translate raw text with aiayn translate.
translate_text() {
  if [ -n "${DRY_RUN:-}" ]; then
    printf '%q ' aiayn translate "$RUN" "${@:3}" && printf '< %q > %q\n' "$1" "$2"
  else
    save_output "$2" aiayn translate "$RUN" "${@:3}" <"$1"
  fi
}

# average N: average the last N checkpoints into $RUN/model.pt.
average() {
  step "average the last $1 checkpoints"
  run aiayn average --inputs "$RUN/checkpoints" --num-update-checkpoints "$1" \
    --output "$RUN/model.pt"
}

# translate_and_score N: translate the test set with the average of the last N checkpoints.
translate_and_score() {
  average "$1"
  step "translate the test set"
  translate test "$RUN/model.pt" "$RUN/generate.log"
  step "score"
  run aiayn score "$RUN/generate.log" --data "$RUN/data" --json "$RUN/scores.json" \
    --output "$RUN/translation.txt" --examples 4
}

# parse FILE ARGUMENTS: parse the test set with $RUN/model.pt and the paper's parsing search (§6.3), the
# default of fairseq-generate for tree data.
parse() {
  save_output "$1" fairseq-generate "$RUN/data" --user-dir aiayn_plugin \
    --path "$RUN/model.pt" --max-tokens 2000 "${@:2}"
}

# parse_and_score N: parse the test set with the average of the last N checkpoints.
parse_and_score() {
  average "$1"
  step "parse the test set"
  parse "$RUN/generate.log"
  step "score"
  run aiayn score "$RUN/generate.log" --data "$RUN/data" --json "$RUN/scores.json" \
    --output "$RUN/trees.txt"
}

# wsj EXPERIMENT F1 OPTIONS ARGUMENTS: one of the paper's two runs of §6.3. OPTIONS names an array of
# options for aiayn prepare-trees; ARGUMENTS go to fairseq-train.
wsj() {
  local precision experiment=$1 f1=$2
  local -n options=$3
  precision=$(gpu_precision)
  step "prepare"
  run aiayn prepare-trees "${options[@]}" --destdir "$RUN/data"
  step "train (aiayn_parser, $experiment)"
  # shellcheck disable=SC2086 # an empty precision is not an argument
  train --arch aiayn_parser --dropout 0.2 --attention-dropout 0.2 --warmup-updates 16000 \
    --max-tokens "$(device_tokens)" $precision --log-format simple --log-interval 100 "${@:4}"
  parse_and_score 5
  printf '\nThe paper (Table 4, %s): F1 %s, to compare with the F1 above.\n' "$experiment" "$f1" | say
}

# download URL FILE
download() { curl --fail --location --retry 5 --progress-bar --output "$2" "$1"; }

# check_files DIRECTORY: fail unless its files have the SHA-256 checksums on standard input.
check_files() {
  (cd "$1" && sha256sum --check --quiet) || {
    echo "${0##*/}: error: the text in $1 does not match its checksums: delete it and run this recipe" \
      "again, with the original text if you gave it a directory" >&2
    exit 1
  }
}

# get FUNCTION DIRECTORY: call one of the functions below that copy or download text to $RUN/raw.
get() {
  [ -z "$2" ] || [ -d "$2" ] || {
    echo "${0##*/}: error: no such directory: $2" >&2
    exit 1
  }
  if [ -n "${DRY_RUN:-}" ]; then
    printf 'RUN=%q bash -euc "source examples/lib.sh && %s %q"\n' "$RUN" "$1" "$2"
  else
    "$@"
  fi
}

MULTI30K_URL=https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw

# multi30k_text DIRECTORY: copy or, if DIRECTORY is empty, download Multi30k's text to $RUN/raw.
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
  check_files "$RUN/raw" <<SUMS
460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6  train.en
2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72  train.de
1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227  valid.en
660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660  valid.de
399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182  test.en
4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16  test.de
SUMS
}

# multi30k DIRECTORY MERGES: get Multi30k's text as above and prepare it in $RUN/data with this number
# of BPE merges.
multi30k() {
  step "get the text"
  get multi30k_text "$1"
  step "prepare"
  # shellcheck disable=SC2086 # empty options are not an argument
  log aiayn prepare -s en -t de --trainpref "$RUN/raw/train" \
    --validpref "$RUN/raw/valid" --testpref "$RUN/raw/test" --destdir "$RUN/data" \
    --merges "$2" ${PREPARE:-}
}

PUBLISHED_URL=https://raw.githubusercontent.com/LividWo/Revisit-MMT/dc368d0af8d60270b8f4aaa2f3ac58771c551da3/data/multi30k-en-de

# published_text DIRECTORY: copy or, if DIRECTORY is empty, download Wu et al.'s text of Multi30k,
# split into subwords, to $RUN/raw.
published_text() {
  local raw=$RUN/raw part=$RUN/raw.part name
  if [ ! -d "$raw" ]; then
    rm -rf "$part"
    mkdir -p "$part"
    for name in {train,valid,test.2016}.{en,de}; do
      if [ -n "$1" ]; then cp "$1/$name" "$part"; else download "$PUBLISHED_URL/$name" "$part/$name"; fi
    done
    mv "$part" "$raw"
  fi
  check_files "$raw" <<SUMS
0ffe3e3bac16e6aa33ef0dd6a7dca81587479b0d18dff0db2a92ac3f32b00c86  train.en
b2c74def7ec129f7ea7023a51501c77174c377ef06c6ccc2f031adcfb5cfadbd  train.de
193d0d18fef5d1bc9d1cddafa13a644de3c5d6a24b45ac44476dcc5e96bfac6e  valid.en
eeb95680d6a06eafb13e3494eed9f9fa99783b892f4a3c72dd36e7ce2e000b68  valid.de
13b5fe3f92f78c54446d66afcaaa0a00a33ab653a8411f16812c9c5ca3795d6d  test.2016.en
375c20d50f4c486149a78dfcfb161a430a04ddabe2b7d150f0c7811dc455ac60  test.2016.de
SUMS
}

TATOEBA_PAIRS=https://raw.githubusercontent.com/rioyshky/translation/de48b7027f7318d77010a6e08ed928c10748c23d/deu-eng.zip
TATOEBA_TESTS=https://raw.githubusercontent.com/Helsinki-NLP/OPUS-MT-testsets/ac0f19c/testsets

# tatoeba_text DIRECTORY: copy or, if DIRECTORY is empty, download Tatoeba's and newstest2014's text to
# $RUN/raw. No training or validation pair has a sentence of a test set of the Tatoeba-Challenge.
tatoeba_text() {
  local raw=$RUN/raw part=$RUN/raw.part name side version
  if [ ! -d "$raw" ]; then
    rm -rf "$part"
    mkdir -p "$part"
    if [ -n "$1" ]; then
      cp "$1"/tatoeba/{train,valid,test}.{en,de} "$1"/newstest/newstest2014.{en,de} "$part"
    else
      for name in en:eng de:deu; do
        side=$part/tatoeba-test.${name%:*}
        for version in v2020-07-28 v2021-03-30 v2021-08-07; do
          download "$TATOEBA_TESTS/eng-deu/tatoeba-test-$version.${name#*:}" "$side.$version"
        done
        cp "$side.v2020-07-28" "$part/test.${name%:*}"
        sacrebleu --test-set wmt14/full --language-pair en-de \
          --echo "$([ "${name%:*}" = en ] && echo src || echo ref)" >"$part/newstest2014.${name%:*}"
      done
      download "$TATOEBA_PAIRS" "$part/deu-eng.zip"
      python -m zipfile -e "$part/deu-eng.zip" "$part"
      python preprocess/tatoeba.py --pairs "$part/deu.txt" --test "$part"/tatoeba-test.* \
        --valid 2000 --destdir "$part"
    fi
    mv "$part" "$raw"
  fi
  check_files "$raw" <<SUMS
81db4eb4c24b9cdb684c593dcf722f812b2df74e11abd3bc247c3194ecf27bb7  test.en
9373a0c7400f6b6f8940e36bc3a1e12b190a6734a451d6e18605d0ba79b658e7  test.de
SUMS
}

PTB_SAMPLE_URL=https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/treebank.zip
GUM=amir-zeldes/gum/tar.gz/72ce5ac14978a324c2fd18d49484e65292cbe316
CRAFT=UCDenver-ccp/CRAFT/tar.gz/2abe82b
GENIA=allenai/genia-dependency-trees/tar.gz/a155b14
MASC=lyonssp/cunning-linguist/tar.gz/3c458ce

# github_files ARCHIVE DIRECTORY STRIP PATTERNS: download files of an archive of a GitHub repository,
# without the first STRIP directories of their paths.
github_files() {
  mkdir -p "$2"
  curl --fail --location --retry 5 --progress-bar "https://codeload.github.com/$1" |
    tar -xz -C "$2" --strip-components "$3" --wildcards "${@:4}"
}

# check_trees SHA256 FILES: fail unless the trees have this checksum, in any order and layout.
check_trees() {
  local sum
  sum=$(awk 1 "${@:2}" | tr -s '[:space:]' ' ' | sed 's/^ //; s/ (\( (\|S1 (\|ROOT (\)/\n(\1/g' |
    sed 's/ $//' | LC_ALL=C sort | sha256sum)
  [ "${sum%% *}" = "$1" ] || {
    echo "${0##*/}: error: the trees in $(dirname "$2") have the wrong checksum: delete $RUN/raw and" \
      "run this recipe again" >&2
    exit 1
  }
}

# treebanks DIRECTORY: copy or, if DIRECTORY is empty, download gold trees to $RUN/raw: the Penn
# Treebank sample, the training documents of CRAFT and GENIA, MASC without its Wall Street Journal
# texts; and GUM, whose trees a parser predicted, without its Reddit documents, which have no words.
# gum.txt lists GUM's files.
treebanks() {
  local raw=$RUN/raw part=$RUN/raw.part id
  if [ ! -d "$raw" ]; then
    rm -rf "$part"
    mkdir -p "$part/gum"
    if [ -n "$1" ]; then
      cp "$1/ptb_sample/wsj_sample.mrg" "$part"
      cp "$1"/gum/const/*.ptb "$part/gum"
      cp "$1/treebanks/craft/train.ptb" "$part/craft.ptb"
      cp "$1/treebanks/genia/train.ptb" "$part/genia.ptb"
      cp "$1/treebanks/masc/masc.ptb" "$part"
    else
      download "$PTB_SAMPLE_URL" "$part/treebank.zip"
      python -m zipfile -e "$part/treebank.zip" "$part"
      cat "$part"/treebank/combined/wsj_*.mrg >"$part/wsj_sample.mrg"
      github_files "$GUM" "$part/gum" 2 '*/const/*.ptb'
      github_files "$CRAFT" "$part/CRAFT" 1 '*/craft-ids-train.txt' '*/treebank/penn/*.tree'
      while read -r id; do
        cat "$part/CRAFT/structural-annotation/treebank/penn/$id.tree"
      done <"$part/CRAFT/articles/ids/craft-ids-train.txt" >"$part/craft.ptb"
      github_files "$GENIA" "$part/GENIA" 2 '*/mclosky/train.trees'
      mv "$part/GENIA/train.trees" "$part/genia.ptb"
      github_files "$MASC" "$part/MASC" 5 '*/resources/Propbank/*.mrg'
      rm -f "$part"/MASC/wsj_*.mrg
      awk 1 "$part"/MASC/*.mrg >"$part/masc.ptb"
      rm -rf "$part"/{CRAFT,GENIA,MASC,treebank,treebank.zip}
    fi
    rm -f "$part"/gum/*_reddit_*.ptb
    mv "$part" "$raw"
  fi
  printf '%s\n' "$raw"/gum/*.ptb | LC_ALL=C sort >"$raw/gum.txt"
  check_trees f8f2254e71a988b0d9e12e27f424f6e1f55b97ba47753860a2134d41d8005d0c "$raw/wsj_sample.mrg"
  check_trees 986f441b7472484f29c974b0022df014cff753124bbb82d7af6d06f34153fedc "$raw"/gum/*.ptb
  check_trees 1bf3bf638fbc3ed98d3a576085c889b568c9dde8e528a5f283338d9eed3746fc "$raw/craft.ptb"
  check_trees 5363db6eea8cb588f16213cac4e49bffedec0896e787763fb22d3f3cb95e38f7 "$raw/genia.ptb"
  check_trees 73e02888f3fe34c6bbef4669cd2277ba317caea08ec982a2a70ac8f6ec32049c "$raw/masc.ptb"
}

# wmt14_data PAIR: download WMT 2014 and prepare it in $DATA/data.
wmt14_data() {
  DATA=${DATA:-runs/wmt14_${1/-/_}}
  step "get and prepare the data, in $DATA"
  # shellcheck disable=SC2086 # empty options are not an argument
  run aiayn wmt14 "$1" --dest "$DATA" ${TABLE:+--table "$TABLE"} ${PREPARE:-}
}

# wmt14_train ARCH ARGUMENTS: train in $RUN on $DATA/data as in the paper.
wmt14_train() {
  local precision
  precision=$(gpu_precision)
  share_data
  step "train ($1, 25,000 target tokens per update on any number of devices)"
  # shellcheck disable=SC2086 # an empty precision is not an argument
  train --arch "$1" --max-tokens "$(device_tokens)" $precision \
    --log-format simple --log-interval 100 "${@:2}"
}

# wmt14 PAIR ARCH CHECKPOINTS BLEU ARGUMENTS: the paper's run on WMT 2014 and its BLEU in Table 2.
wmt14() {
  wmt14_data "$1"
  wmt14_train "$2" "${@:5}"
  translate_and_score "$3"
  printf '\nThe paper (Table 2, %s): BLEU %s, to compare with the paper BLEU above.\n' "$2" "$4" | say
}

# device_tokens: print MAX_TOKENS or the tokens per batch that one device holds: one per 2 MiB of the
# smallest GPU, up to an update of 25,000 with its padding; 4,096 without a GPU. Per token of each side
# the big model keeps 0.44 MiB in bfloat16 and 0.74 in float32 until the backward pass.
device_tokens() {
  local memory
  memory=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits 2>/dev/null |
    sort -n | head -n 1) || true
  case $memory in
    "" | *[!0-9]*) memory=8192 ;;
  esac
  echo "${MAX_TOKENS:-$((memory / 2 > 30000 ? 30000 : memory / 2))}"
}

# count_cores: print the number of cores that this process may use.
count_cores() { env -u OMP_NUM_THREADS nproc; }

has_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; }

# gpu_precision: print PRECISION if it is set; else --bf16 on GPUs, --fp16 if one of them lacks
# bfloat16 (compute capability below 8.0, such as a V100's 7.0), and nothing without a GPU.
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

#!/usr/bin/env bash
# Download or copy the text or trees of a recipe to RUN/raw, and verify SHA-256 checksums. The recipes call
# this.
#   RUN=… bash examples/corpora.sh CORPUS              download it
#   RUN=… bash examples/corpora.sh CORPUS DIRECTORY    copy it from a directory
# CORPUS is multi30k, published (Multi30k as preprocessed by Wu et al., 2021), tatoeba (with
# newstest2014) or treebanks; the recipes say which files a directory must have.
set -Eeuo pipefail
corpus=$1 directory=${2:-}
raw=${RUN:?set RUN to the directory of a recipe}/raw
export LC_ALL=C # for the order of files
part=$raw.part

# die MESSAGE: end the script with an error.
die() {
  echo "corpora.sh: error: $*" >&2
  exit 1
}

# download URL FILE
download() {
  curl --fail --location --retry 5 --connect-timeout 60 --speed-limit 1 --speed-time 60 --progress-bar \
    --output "$2" "$1" ||
    die "cannot download $1: run the recipe again, or give it a directory with the text"
}

# check_files: fail unless the files in RUN/raw have the SHA-256 checksums on standard input.
check_files() {
  (cd "$raw" && sha256sum --check --quiet) ||
    die "the text in $raw does not match its checksums: delete it and run the recipe again, with the" \
      "original text if you gave it a directory"
}

MULTI30K_URL=https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw

get_multi30k() {
  local name public
  for name in {train,valid,test}.{en,de}; do
    public=${name/valid/val}
    public=${public/test/test_2016_flickr}
    if [ -n "$directory" ]; then
      cp "$directory/$public" "$part/$name"
    else
      download "$MULTI30K_URL/$public.gz" "$part/$name.gz"
      gzip -d "$part/$name.gz"
    fi
  done
}

check_multi30k() {
  check_files <<SUMS
460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6  train.en
2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72  train.de
1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227  valid.en
660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660  valid.de
399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182  test.en
4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16  test.de
SUMS
}

PUBLISHED_URL=https://raw.githubusercontent.com/LividWo/Revisit-MMT/dc368d0af8d60270b8f4aaa2f3ac58771c551da3/data/multi30k-en-de

get_published() {
  local name
  for name in {train,valid,test.2016}.{en,de}; do
    if [ -n "$directory" ]; then
      cp "$directory/$name" "$part"
    else
      download "$PUBLISHED_URL/$name" "$part/$name"
    fi
  done
}

check_published() {
  check_files <<SUMS
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

# No training or validation pair has a sentence of a test set of the Tatoeba-Challenge.
get_tatoeba() {
  local name side version
  if [ -n "$directory" ]; then
    cp "$directory"/tatoeba/{train,valid,test}.{en,de} "$directory"/newstest/newstest2014.{en,de} "$part"
    return
  fi
  for name in en:eng de:deu; do
    side=$part/tatoeba-test.${name%:*}
    for version in v2020-07-28 v2021-03-30 v2021-08-07; do
      download "$TATOEBA_TESTS/eng-deu/tatoeba-test-$version.${name#*:}" "$side.$version"
    done
    cp "$side.v2020-07-28" "$part/test.${name%:*}"
    timeout --foreground 600 sacrebleu --test-set wmt14/full --language-pair en-de \
      --echo "$([ "${name%:*}" = en ] && echo src || echo ref)" >"$part/newstest2014.${name%:*}" ||
      die "sacrebleu cannot download newstest2014: run the recipe again, or give a directory with the text"
  done
  download "$TATOEBA_PAIRS" "$part/deu-eng.zip"
  python -m zipfile -e "$part/deu-eng.zip" "$part"
  python preprocess/tatoeba.py --pairs "$part/deu.txt" --test "$part"/tatoeba-test.* \
    --valid 2000 --destdir "$part"
}

check_tatoeba() {
  local name
  for name in tatoeba/{train,valid}.{en,de} newstest/newstest2014.{en,de}; do
    [ -z "$directory" ] || cmp -s "$directory/$name" "$raw/${name##*/}" ||
      die "$raw/${name##*/} is not $directory/$name: delete $raw, or set a different RUN"
  done
  check_files <<SUMS
81db4eb4c24b9cdb684c593dcf722f812b2df74e11abd3bc247c3194ecf27bb7  test.en
9373a0c7400f6b6f8940e36bc3a1e12b190a6734a451d6e18605d0ba79b658e7  test.de
SUMS
}

PTB_SAMPLE_URL=https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/treebank.zip
GUM=amir-zeldes/gum/tar.gz/72ce5ac14978a324c2fd18d49484e65292cbe316
CRAFT=UCDenver-ccp/CRAFT/tar.gz/2abe82b
GENIA=allenai/genia-dependency-trees/tar.gz/a155b14
MASC=lyonssp/cunning-linguist/tar.gz/3c458ce

# github_files ARCHIVE DIRECTORY STRIP PATTERNS: download files from the archive of a GitHub repository,
# and strip the first STRIP directories from their paths.
github_files() {
  mkdir -p "$2"
  download "https://codeload.github.com/$1" "$2.tar.gz"
  tar -xzf "$2.tar.gz" -C "$2" --strip-components "$3" --wildcards "${@:4}"
  rm "$2.tar.gz"
}

# check_trees FILTER SHA256 FILES: fail unless the trees, in any layout, have this checksum after the
# filter: cat, or sort for any order of the trees.
check_trees() {
  local sum
  sum=$(awk 1 "${@:3}" | tr -s '[:space:]' ' ' | sed 's/^ //; s/ (\( (\|S1 (\|ROOT (\)/\n(\1/g' |
    sed 's/ $//' | "$1" | sha256sum)
  [ "${sum%% *}" = "$2" ] ||
    die "the trees in $(dirname "$3") have the wrong checksum: delete $raw and run the recipe again"
}

# Gold trees: the Penn Treebank sample, the training documents of CRAFT and GENIA, and MASC without its
# Wall Street Journal texts. Predicted trees: GUM without its Reddit documents, which have no words.
get_treebanks() {
  local id
  mkdir "$part/gum"
  if [ -n "$directory" ]; then
    cp "$directory/ptb_sample/wsj_sample.mrg" "$part"
    cp "$directory"/gum/const/*.ptb "$part/gum"
    cp "$directory/treebanks/craft/train.ptb" "$part/craft.ptb"
    cp "$directory/treebanks/genia/train.ptb" "$part/genia.ptb"
    cp "$directory/treebanks/masc/masc.ptb" "$part"
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
}

# Also lists GUM's files in gum.txt.
check_treebanks() {
  printf '%s\n' "$raw"/gum/*.ptb >"$raw/gum.txt"
  # In order: the recipe holds out the last trees.
  check_trees cat ebaf2b8af144c8eba072431677c09471fb9c360f93d0b818e3644e6d31d0c889 "$raw/wsj_sample.mrg"
  check_trees sort 986f441b7472484f29c974b0022df014cff753124bbb82d7af6d06f34153fedc "$raw"/gum/*.ptb
  check_trees sort 1bf3bf638fbc3ed98d3a576085c889b568c9dde8e528a5f283338d9eed3746fc "$raw/craft.ptb"
  check_trees sort 5363db6eea8cb588f16213cac4e49bffedec0896e787763fb22d3f3cb95e38f7 "$raw/genia.ptb"
  check_trees sort 73e02888f3fe34c6bbef4669cd2277ba317caea08ec982a2a70ac8f6ec32049c "$raw/masc.ptb"
}

case $corpus in
  multi30k | published | tatoeba | treebanks) ;;
  *) die "no corpus $corpus: choose from multi30k, published, tatoeba and treebanks" ;;
esac
if [ ! -d "$raw" ]; then
  rm -rf "$part"
  mkdir -p "$part"
  [ -z "$directory" ] || trap 'die "cannot copy from $directory: see --help of the recipe for its files"' ERR
  "get_$corpus"
  trap - ERR
  mv "$part" "$raw"
fi
"check_$corpus"

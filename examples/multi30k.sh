#!/usr/bin/env bash
# Multi30k (image captions, 29,000 pairs), English to German: from raw text to sacreBLEU on
# test_2016_flickr; training takes about 50 minutes on two CPU cores. Stopped and started again, it
# goes on.
#   bash examples/multi30k.sh            fetches the text from github.com/multi30k/dataset
#   bash examples/multi30k.sh DIRECTORY  takes train, val and test_2016_flickr .en and .de there
# RUN (default: runs/multi30k) is the directory of all results. PREPARE has more options for
# prepare.py.
set -euo pipefail
source_dir=${1:+$(CDPATH="" cd "$1" && pwd)}
RUN=${RUN:-runs/multi30k}
# shellcheck source=examples/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

BASE_URL=https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw

# Of the uncompressed text, with the names under which prepare.py gets it.
checksums() {
  sed 's/^ *//' <<SUMS
    460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6  train.en
    2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72  train.de
    1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227  valid.en
    660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660  valid.de
    399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182  test.en
    4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16  test.de
SUMS
}

fetch() {
  mkdir -p "$RUN/raw"
  local name public
  for name in {train,valid,test}.{en,de}; do
    [ -f "$RUN/raw/$name" ] && continue
    public=${name/valid/val}
    public=${public/test/test_2016_flickr}
    if [ -n "$source_dir" ]; then
      cp "$source_dir/$public" "$RUN/raw/$name.part"
    else
      curl --fail --location --retry 5 --progress-bar "$BASE_URL/$public.gz" |
        gzip -dc >"$RUN/raw/$name.part"
    fi
    mv "$RUN/raw/$name.part" "$RUN/raw/$name"
  done
  (cd "$RUN/raw" && checksums | sha256sum --check --quiet) || {
    echo "multi30k.sh: error: the text in $RUN/raw is not Multi30k's: delete it, start again" >&2
    exit 1
  }
}

step "get the text"
[ -n "${DRY_RUN:-}" ] || fetch

step "prepare"
# shellcheck disable=SC2086 # no option is no argument
run python preprocess/prepare.py -s en -t de --trainpref "$RUN/raw/train" --validpref "$RUN/raw/valid" \
  --testpref "$RUN/raw/test" --destdir "$RUN/data" --merges 4000 ${PREPARE:-}

step "train (about 50 minutes on two cores)"
train --arch aiayn_tiny --N 4 --d-ff 256 --dropout 0.2 --tokens-per-update 2500 \
  --max-update 4400 --save-interval-updates 200 --validate-interval 10 \
  --log-format simple --log-interval 100

translate_and_score 5

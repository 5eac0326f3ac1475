#!/usr/bin/env bash
# Update the pictures of README.md, in examples/pictures, from the results of multi30k.sh and
# table3.sh. Needs Chromium; Table 1 takes a minute on an idle machine.
#   bash examples/pictures.sh                       all pictures
#   bash examples/pictures.sh attention report      these pictures
#   DRY_RUN=1 bash examples/pictures.sh             print every command and run none
set -euo pipefail
RUN=runs/pictures
# shellcheck source=examples/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
pictures=examples/pictures

# shot NAME SIZE PAGE: save a picture of the upper part of a page.
shot() {
  run "${CHROMIUM:-chromium}" --headless --no-sandbox --disable-gpu --hide-scrollbars \
    --window-size="$2" --screenshot="$PWD/$pictures/$1.png" "file://$PWD/$3"
}

attention() {
  run aiayn attention runs/multi30k --output "$RUN/attention.html" \
    <<<"Two young girls are playing with a dog in the snow, and an old woman watches them."
  shot attention 1200,910 "$RUN/attention.html#kind=encoder-decoder&layer=3&word=schaut"
}

report() { shot report 1300,900 runs/table3/report.html; }

table1() { run aiayn benchmark attention --plot "$pictures/table1.png" --runs 9; }

for picture in "${@:-attention report table1}"; do
  for name in $picture; do
    step "$name"
    "$name"
  done
done

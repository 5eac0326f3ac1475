#!/usr/bin/env bash
# Update attention.png, report.png and table1.png in examples/pictures; the second needs the result of
# quickstart.sh. Needs Chromium and its driver; Table 1 takes a minute on an idle machine.
#   bash examples/pictures.sh                       all three
#   bash examples/pictures.sh attention report      only these
#   DRY_RUN=1 bash examples/pictures.sh             print the commands without running them
set -euo pipefail
RUN=runs/pictures
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
for name in "$@"; do
  [[ $name =~ ^(attention|report|table1)$ ]] || die "unknown picture $name: choose from attention report table1"
done
begin
pictures=examples/pictures

# shot NAME WIDTH PAGE SELECTOR: save a screenshot of a page down to an element.
shot() {
  run python examples/screenshot.py "file://$PWD/$3" "$pictures/$1.png" "$2" "$4"
}

attention() {
  pipe "Last change: Wednesday, June 7, 1905, 5:37 PM" \
    run aiayn attention demo --output "$RUN/attention.html"
  shot attention 1320 "$RUN/attention.html#word=17:37" "#panels"
}

report() {
  run aiayn report runs/quickstart --output "$RUN/report"
  shot report 1200 "$RUN/report.html" .figures
}

table1() { run aiayn benchmark attention --plot "$pictures/table1.png" --runs 9; }

# shrink NAME: reduce a picture to 256 colours, rare ones included.
shrink() {
  run python -c 'import sys; from PIL import Image
picture = Image.open(sys.argv[1]).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE)
picture.save(sys.argv[1], optimize=True)' "$pictures/$1.png"
}

[ $# -gt 0 ] || set -- attention report table1
for name in "$@"; do
  step "$name"
  "$name"
  shrink "$name"
done

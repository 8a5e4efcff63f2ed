#!/bin/sh
# Runs this bundle on a machine with a GPU, and writes gpu-report.json.
# Usage: sh run.sh [OUTPUT-FOLDER]
# PARTS="suites mps demos bench" chooses what runs, by default "suites demos".
# MPS=1 and BENCH=1 add one part each (scripts/gpu-report.mjs).
set -u
bundle=$(cd "$(dirname "$0")" && pwd)
out=${1:-$bundle/out}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$bundle" || exit 1

if [ ! -x ./node ]; then
  xz -dc node.xz > node 2>/dev/null || python3 -c 'import lzma, shutil; shutil.copyfileobj(lzma.open("node.xz"), open("node", "wb"))' || exit 1
  chmod +x node
fi
PATH="$bundle:$PATH"
export PATH
exec ./node scripts/gpu-report.mjs "$out"

#!/bin/sh
# Runs this bundle on a machine with a GPU, and writes gpu-report.json.
# Usage: sh run.sh [OUTPUT-FOLDER]
# PARTS="suites mps demos python bench" chooses what runs, by default "suites demos".
# MPS=1 and BENCH=1 add one part each (scripts/gpu-report.mjs). BENCH_ONLY="machines put" chooses
# benchmarks, and BENCH_SECONDS=540 ends them after that time.
set -u
bundle=$(cd "$(dirname "$0")" && pwd)
out=${1:-$bundle/out}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$bundle" || exit 1

# Unpacks NAME.xz. A machine without xz may have Python.
unpack() {
  xz -dc "$1.xz" > "$1" 2>/dev/null || python3 -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1] + ".xz"), open(sys.argv[1], "wb"))' "$1"
}

if [ ! -x ./node ]; then
  unpack node || exit 1
  chmod +x node
fi
for archive in sharp code; do
  if [ ! -f "$archive.tar" ]; then
    unpack "$archive.tar" && tar -xf "$archive.tar" || exit 1
  fi
done
if [ -f engines.tar.xz ] && [ ! -d engines ]; then
  mkdir engines && unpack engines.tar && tar -xf engines.tar -C engines || exit 1
fi
if [ -d engines ]; then
  : "${NATS_SERVER:=$bundle/engines/nats-server}" "${CUDA_IPC_UCX:=$bundle/engines/libucx/lib/libucp.so.0}"
  export NATS_SERVER CUDA_IPC_UCX
fi
PATH="$bundle:$PATH"
export PATH
exec ./node scripts/gpu-report.mjs "$out"

#!/usr/bin/env node
// What `cuda-ipc` starts: sizes Node's thread pool, then runs the program.
// WHY CommonJS: the pool's size counts only until its first use, and loading an ES module is one. Files are copied by
// that pool, so with fewer threads than cores `put` and `get` are slower than the disk.
const cores = process.getBuiltinModule("node:os").availableParallelism();
process.env.UV_THREADPOOL_SIZE ??= String(Math.max(4, Math.min(16, cores)));
void import("./main.js");

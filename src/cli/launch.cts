#!/usr/bin/env node
// What `cuda-ipc` starts: sizes Node's thread pool, then runs the program.
// WHY CommonJS: the pool's size counts only until its first use, and loading an ES module is one. Files are copied by
// that pool, so with fewer threads than cores `put` and `get` are slower than the disk.
const cores = process.getBuiltinModule("node:os").availableParallelism();
process.env.UV_THREADPOOL_SIZE ??= String(Math.max(4, Math.min(16, cores)));
import("./main.js").catch((error: unknown) => {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  if (code !== "EMFILE" && code !== "ENFILE") throw error;
  // WHY in these words here: with no file to be opened, the module that knows them cannot be loaded.
  process.stderr.write(
    `error[TOO_MANY_FDS]: Cannot load the program: the table of open files is full (${code}).\n` +
      "  hint: Close something, or raise the limit (ulimit -n).\n",
  );
  // WHY exit: other modules are still being loaded, and fail with nobody listening.
  process.exit(1);
});

#!/usr/bin/env node
// The entry of `cuda-ipc`: sizes Node's thread pool, then runs the program.
// WHY CommonJS: Node reads the size at the pool's first use, and loading an ES module is a use.
// The pool copies files: with fewer threads than cores, `put` and `get` are slower than the disk.
// WHY require: an old Node.js has no getBuiltinModule, and must get as far as refuseOldRuntime().
const os = require("node:os") as typeof import("node:os");
const cores = os.availableParallelism();
process.env.UV_THREADPOOL_SIZE ??= String(Math.max(4, Math.min(16, cores)));
import("./main.js").catch(async (error: unknown) => {
  if (!isFullTable(error)) {
    await refuseOldRuntime();
    throw error;
  }
  // No more files can be opened, so the module that prints errors cannot be loaded.
  process.stderr.write(
    "error[TOO_MANY_FDS]: Cannot load the program: this process may open no more files.\n" +
      "  hint: Raise the limit (ulimit -n), or close files elsewhere.\n",
  );
  // WHY exit: other modules still load, and their failures would go unhandled.
  process.exit(1);
});

/** An old Node.js may lack what the program imports, and fail before the program can say why. */
async function refuseOldRuntime(): Promise<void> {
  const { checkRuntime } = await import("../base/check-runtime.js");
  try {
    checkRuntime();
  } catch (refusal) {
    process.stderr.write(`error[UNSUPPORTED]: ${(refusal as Error).message}.\n`);
    process.exit(1);
  }
}

/** While it loads, the program has fewer files open at a time than this. */
const FILES_MIN = 32;

/**
 * Whether loading failed because this process may open too few files.
 * WHY not by the error alone: Node reports a package whose files it cannot open as missing. By then
 * it may have closed other files.
 */
function isFullTable(error: unknown): boolean {
  if (["EMFILE", "ENFILE"].includes(codeOf(error))) return true;
  const fs = require("node:fs") as typeof import("node:fs");
  const opened: number[] = [];
  try {
    while (opened.length < FILES_MIN) opened.push(fs.openSync("/dev/null", "r"));
    return false;
  } catch (cause) {
    return ["EMFILE", "ENFILE"].includes(codeOf(cause));
  } finally {
    for (const fd of opened) fs.closeSync(fd);
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

#!/usr/bin/env node
// What `cuda-ipc` starts: sizes Node's thread pool, then runs the program.
// WHY CommonJS: the pool's size counts only until its first use, and loading an ES module is one. Files are copied by
// that pool, so with fewer threads than cores `put` and `get` are slower than the disk.
// WHY not getBuiltinModule: a Node.js that is too old for this program has none, and is told so further on.
const os = require("node:os") as typeof import("node:os");
const cores = os.availableParallelism();
process.env.UV_THREADPOOL_SIZE ??= String(Math.max(4, Math.min(16, cores)));
import("./main.js").catch(async (error: unknown) => {
  if (!isFullTable(error)) {
    await refuseOldRuntime();
    throw error;
  }
  // WHY in these words here: with no file to be opened, the module that knows them cannot be loaded.
  process.stderr.write(
    "error[TOO_MANY_FDS]: Cannot load the program: the table of open files is full.\n" +
      "  hint: Close something, or raise the limit (ulimit -n).\n",
  );
  // WHY exit: other modules are still being loaded, and fail with nobody listening.
  process.exit(1);
});

/** A Node.js that is too old may lack what the program imports, and then ends before the program can say so. */
async function refuseOldRuntime(): Promise<void> {
  const { checkRuntime } = await import("../base/check-runtime.js");
  try {
    checkRuntime();
  } catch (refusal) {
    process.stderr.write(`error[UNSUPPORTED]: ${(refusal as Error).message}.\n`);
    process.exit(1);
  }
}

/** Whether loading failed because this process could open no more files. */
function isFullTable(error: unknown): boolean {
  const code = codeOf(error);
  if (code !== "ERR_MODULE_NOT_FOUND") return code === "EMFILE" || code === "ENFILE";
  // WHY: if Node cannot open the main file of a package, it says that the package is not there.
  const [, entry = ""] = /'([^']+)'/.exec(String(error)) ?? [];
  const fs = process.getBuiltinModule("node:fs");
  try {
    fs.closeSync(fs.openSync("/dev/null", "r"));
    require.resolve(process.getBuiltinModule("node:path").dirname(entry));
    return true;
  } catch (cause) {
    return ["EMFILE", "ENFILE"].includes(codeOf(cause));
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

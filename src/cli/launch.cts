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

/** Whether loading failed because this process may open no more files. */
function isFullTable(error: unknown): boolean {
  const code = codeOf(error);
  if (code !== "ERR_MODULE_NOT_FOUND") return code === "EMFILE" || code === "ENFILE";
  // If Node cannot open the main file of a package, it reports the package as missing.
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

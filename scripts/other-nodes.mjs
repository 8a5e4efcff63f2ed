// Runs the tests of threads and process ends under the other supported versions of Node.js, which
// npm downloads.
import { spawnSync } from "node:child_process";
import { pathToFileURL } from "node:url";

export const NODES = ["22", "24", "26"];
const TESTS = ["process/threads/threads", "process/exit"];

/** Runs compiled tests. @returns their exit status */
export function runUnder(version, words = []) {
  console.log(`Node.js ${version}:`);
  const node = ["--yes", "--package", `node@${version}`, "--", "node"];
  return spawnSync("npx", [...node, "scripts/test.mjs", "--prebuilt", ...words, ...TESTS], {
    stdio: "inherit",
  }).status;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { compile } = await import("./compile.mjs");
  await compile();
  for (const version of NODES) {
    const status = runUnder(version);
    if (status !== 0) process.exit(status ?? 1);
  }
}

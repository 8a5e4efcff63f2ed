// Runs the tests of threads and of how processes end under the other versions of Node.js that are supported; npm brings them.
import { spawnSync } from "node:child_process";
import { pathToFileURL } from "node:url";

export const NODES = ["22", "24", "26"];
const TESTS = ["process/threads/threads", "process/exit"];

/** Of what is compiled already. @returns the exit status of the tests */
export function runUnder(version, words = []) {
  console.log(`Node.js ${version}:`);
  const node = ["--yes", "--package", `node@${version}`, "--", "node"];
  return spawnSync("npx", [...node, "scripts/test.mjs", "--prebuilt", ...words, ...TESTS], { stdio: "inherit" }).status;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { compile } = await import("./compile.mjs");
  await compile();
  for (const version of NODES) {
    const status = runUnder(version);
    if (status !== 0) process.exit(status ?? 1);
  }
}

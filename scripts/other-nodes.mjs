// Runs the tests of threads and of how processes end under the other versions of Node.js that are supported; npm brings them.
import { spawnSync } from "node:child_process";
import { compile } from "./compile.mjs";

const VERSIONS = ["22", "24", "26"];
const TESTS = ["process/threads/threads", "process/exit"];

await compile();
for (const version of VERSIONS) {
  console.log(`Node.js ${version}:`);
  const node = ["--yes", "--package", `node@${version}`, "--", "node"];
  const { status } = spawnSync("npx", [...node, "scripts/test.mjs", "--prebuilt", ...TESTS], { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}

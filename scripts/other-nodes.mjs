// Runs the tests of threads, process ends, views and web servers under the other supported
// versions of Node.js, which npm downloads.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { pathToFileURL } from "node:url";

export const NODES = ["22", "24", "26"];
const TESTS = ["process/threads/threads", "process/exit", "unit/gpu/views", "unit/web"];

/** Runs compiled tests, and prints their output at the end. @returns their exit status */
export async function runUnder(version, words = []) {
  const node = ["--yes", "--package", `node@${version}`, "--", "node"];
  const child = spawn("npx", [...node, "scripts/test.mjs", "--prebuilt", ...words, ...TESTS], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output = [];
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (part) => output.push(part));
  const [status] = await once(child, "close");
  console.log(`Node.js ${version}:\n${Buffer.concat(output)}`);
  return status;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { compile } = await import("./compile.mjs");
  await compile();
  const results = await Promise.all(NODES.map((version) => runUnder(version)));
  process.exitCode = results.every((status) => status === 0) ? 0 : 1;
}

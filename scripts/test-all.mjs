// Runs every test that needs no GPU, then the tests of threads, process ends, views and web servers
// under the other versions of Node.js. Ends with the line `N passed, N failed, N skipped` for all
// of them.
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { NODES, runUnder } from "./other-nodes.mjs";

const total = { passed: 0, failed: 0, skipped: 0 };
const failures = [];
let failed = false;

/**
 * @param name of the report's file
 * @param run starts the tests, which write their counts to this file, and resolves to their
 *   exit status
 */
async function add(name, run) {
  const report = `build/report-${process.pid}-${name}.json`;
  rmSync(report, { force: true });
  const status = await run(report);
  failed ||= status !== 0;
  try {
    const counts = JSON.parse(readFileSync(report, "utf8"));
    for (const kind of Object.keys(total)) total[kind] += counts[kind];
    failures.push(...counts.failures);
  } catch {
    // Counted as a failure: without a report, the run ended before its tests.
    total.failed += 1;
  } finally {
    rmSync(report, { force: true });
  }
}

await add("all", (report) => {
  const words = [
    "scripts/test.mjs",
    "--all",
    "--slowest",
    `--report=${report}`,
    ...process.argv.slice(2),
  ];
  return spawnSync(process.execPath, words, { stdio: "inherit" }).status;
});
await Promise.all(
  NODES.map((version) => add(version, (report) => runUnder(version, [`--report=${report}`]))),
);
// Once more at the end, where a log that was cut still has them.
for (const { file, name, message } of failures) console.log(`failed: ${file}: ${name}\n${message}`);
console.log(`${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
process.exitCode = failed || total.failed > 0 ? 1 : 0;

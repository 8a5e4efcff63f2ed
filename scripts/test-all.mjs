// Runs every test that needs no GPU, then the tests of threads and process ends under the other
// versions of Node.js. Ends with the line `N passed, N failed, N skipped` for all of them.
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { NODES, runUnder } from "./other-nodes.mjs";

const total = { passed: 0, failed: 0, skipped: 0 };
let failed = false;

/**
 * @param run starts the tests, which write their counts to this file, and returns their exit status
 */
function add(run) {
  const report = `build/report-${process.pid}.json`;
  rmSync(report, { force: true });
  const status = run(report);
  failed ||= status !== 0;
  try {
    const counts = JSON.parse(readFileSync(report, "utf8"));
    for (const kind of Object.keys(total)) total[kind] += counts[kind];
  } catch {
    // Counted as a failure: without a report, the run ended before its tests.
    total.failed += 1;
  } finally {
    rmSync(report, { force: true });
  }
}

add((report) => {
  const words = [
    "scripts/test.mjs",
    "--all",
    "--slowest",
    `--report=${report}`,
    ...process.argv.slice(2),
  ];
  return spawnSync(process.execPath, words, { stdio: "inherit" }).status;
});
for (const version of NODES) add((report) => runUnder(version, [`--report=${report}`]));
console.log(`${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
process.exitCode = failed || total.failed > 0 ? 1 : 0;

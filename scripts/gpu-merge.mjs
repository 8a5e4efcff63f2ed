// Merges the reports of several runs of one bundle:
// node scripts/gpu-merge.mjs REPORT... > docs/gpu-report.json
// If a part ran more than once, its last run counts.
import { readFileSync } from "node:fs";

const reports = process.argv.slice(2).map((path) => JSON.parse(readFileSync(path, "utf8")));
const [first] = reports;
if (first === undefined || reports.some(({ commit }) => commit !== first.commit)) {
  console.error("Give reports of one commit.");
  process.exit(2);
}
const merged = Object.assign({}, ...reports);
merged.suites = Object.assign({}, ...reports.map(({ suites }) => suites));
merged.seconds = reports.reduce((sum, { seconds }) => sum + seconds, 0);
merged.passed =
  Object.values(merged.suites).every(({ passed, failed }) => passed > 0 && failed === 0) &&
  (merged.commands ?? []).every(({ exitCode }) => exitCode === 0) &&
  (merged.terminals ?? []).every(({ sides }) => sides.every(({ exitCode }) => exitCode === 0)) &&
  (merged.python?.passed ?? true);
console.log(JSON.stringify(merged, null, 2));

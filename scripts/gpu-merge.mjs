// Merges the reports of several runs:
// node scripts/gpu-merge.mjs REPORT... > docs/gpu-report.json
// If a part ran more than once, its last run counts. The first report gives the commit. Of other
// commits only suites are taken, and they say so.
import { readFileSync } from "node:fs";

const reports = process.argv.slice(2).map((path) => JSON.parse(readFileSync(path, "utf8")));
const [first] = reports;
const others = reports.filter(({ commit }) => commit !== first.commit);
if (first === undefined || others.some(({ commands, python }) => commands ?? python)) {
  console.error("Give reports, and first those with commands and with Python, of one commit.");
  process.exit(2);
}
for (const { commit, suites } of others)
  for (const suite of Object.values(suites)) suite.commit = commit;
const merged = Object.assign({}, ...reports, { commit: first.commit });
merged.suites = Object.assign({}, ...reports.map(({ suites }) => suites));
merged.seconds = reports.reduce((sum, { seconds }) => sum + seconds, 0);
merged.passed =
  Object.values(merged.suites).every(({ passed, failed }) => passed > 0 && failed === 0) &&
  (merged.commands ?? []).every(({ exitCode }) => exitCode === 0) &&
  (merged.terminals ?? []).every(({ sides }) => sides.every(({ exitCode }) => exitCode === 0)) &&
  (merged.python?.passed ?? true);
console.log(JSON.stringify(merged, null, 2));

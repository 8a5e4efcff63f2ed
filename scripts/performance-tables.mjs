// Prints the tables of docs/performance.md from the JSON of a benchmark run or of
// docs/gpu-benchmarks.json: all sections, or those that begin with one of the given words:
// node scripts/performance-tables.mjs bench.json "A large hub" "A producer"
import { readFileSync } from "node:fs";

const report = JSON.parse(readFileSync(process.argv[2] ?? "bench.json", "utf8"));
/** In a report of a GPU machine, the run is a field. */
const { machine, date, sections } = report.benchmarks ?? report;

const number = (value) => Number(value.toPrecision(3));
const figure = ({ value, unit, missing }) =>
  missing === undefined ? `${number(value)} ${unit}` : `not measured: ${missing}`;
const goal = ({ goal, met }) => (goal === undefined ? "" : `${goal}: ${met ? "met" : "missed"}`);
const compared = ({ ratio, comparedWith }) =>
  ratio === undefined ? "" : `${number(ratio)} x ${comparedWith}`;
const inC = (found) => (typeof found === "object" ? `${number(found.median)} us` : (found ?? ""));

const words = process.argv.slice(3);
const isWanted = (title) => words.length === 0 || words.some((word) => title.startsWith(word));
const { device, driver, cores, cpu, node } = machine;

console.log(`Measured on ${device}, ${driver}; ${cores} cores (${cpu}), Node ${node}; ${date}\n`);
for (const [title, rows] of Object.entries(sections)) {
  if (!isWanted(title)) continue;
  console.log(`**${title}**\n`);
  if (rows.some((row) => row.inC !== undefined)) {
    console.log("| what | TypeScript | C | ratio | goal |\n|---|---|---|---|---|");
    for (const row of rows) {
      const ratio = row.ratio === undefined ? "" : row.ratio.toFixed(2);
      console.log(
        `| \`${row.name}\`: ${row.what} | ${figure(row)} | ${inC(row.inC)} | ${ratio} | ${goal(row)} |`,
      );
    }
  } else {
    console.log("| what | measured | compared | goal |\n|---|---|---|---|");
    for (const row of rows)
      console.log(`| ${row.what} | ${figure(row)} | ${compared(row)} | ${goal(row)} |`);
  }
  console.log();
}

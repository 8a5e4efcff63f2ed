// Simulates the hub's core: `npm run simulate -- --steps N --seed S --out FILE`. See
// test/property/hub-simulation.test.ts. Uses S and the seeds after it. Writes a report to FILE as
// JSON.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { compile } from "./compile.mjs";

const { values } = parseArgs({
  options: {
    steps: { type: "string", default: "1000000" },
    seed: { type: "string", default: "1" },
    out: { type: "string" },
    prebuilt: { type: "boolean", default: false },
  },
});
if (!values.prebuilt) await compile();
const { simulate } = await import("../build/test/support/simulation/runs.js");

const commit = execFileSync("git", ["describe", "--always", "--dirty", "--abbrev=40"], {
  encoding: "utf8",
}).trim();
const began = process.hrtime.bigint();
const { steps, seeds, processes, counts, answers } = simulate(
  Number(values.steps),
  Number(values.seed),
);
const report = {
  date: new Date().toISOString().slice(0, 10),
  commit,
  node: process.version,
  steps,
  seeds: { first: seeds[0], last: seeds.at(-1), count: seeds.length },
  processes,
  violations: 0,
  seconds: Math.round(Number(process.hrtime.bigint() - began) / 1e9),
  counts,
  answers,
};
const text = `${JSON.stringify(report, null, 2)}\n`;
if (values.out === undefined) process.stdout.write(text);
else writeFileSync(values.out, text);

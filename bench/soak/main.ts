/**
 * A long run of clients that connect, share, leave and are killed: `npm run soak -- --minutes 60
 * --seed 1 --out report.json`. `--load 0.5` runs half as many clients. `--kill-hub` kills the hub
 * or its keeper now and then. With `--attack`, which needs root, another user attacks the hub.
 * `--machine-wide` adds attacks that other programs of this machine feel: they take all of
 * fs.aio-max-nr for some seconds. `--operation-ms` is the limit of an operation (5000), for a
 * machine that other work keeps busy. Exits with 1 if it finds a fault.
 */
import { writeFileSync } from "node:fs";
import { cpus, release } from "node:os";
import { parseArgs } from "node:util";
import { soak } from "./soak.js";
import { judge, RSS_GROWTH_ATTACKED_MIB_MAX, RSS_GROWTH_MIB_MAX } from "./verdict.js";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "60" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    load: { type: "string", default: "1" },
    out: { type: "string" },
    "kill-hub": { type: "boolean", default: false },
    attack: { type: "boolean", default: false },
    "machine-wide": { type: "boolean", default: false },
    "operation-ms": { type: "string", default: "5000" },
    "sample-seconds": { type: "string", default: "60" },
  },
});

function positive(name: "minutes" | "load" | "operation-ms" | "sample-seconds"): number {
  const value = Number(values[name]);
  if (value > 0 && Number.isFinite(value)) return value;
  console.error(`--${name} must be a number above 0, not ${values[name]}`);
  process.exit(2);
}

const minutes = positive("minutes");
const load = positive("load");
const seed = Number(values.seed);
if (!Number.isSafeInteger(seed) || seed < 0) {
  console.error(`--seed must be a whole number from 0, not ${values.seed}`);
  process.exit(2);
}
// A short run also needs some samples.
const sampleSeconds = Math.min(positive("sample-seconds"), (minutes * 60) / 4);
const killHub = values["kill-hub"];
const { attack, "machine-wide": machineWide } = values;
const operationMs = positive("operation-ms");
if (attack && process.geteuid?.() !== 0) {
  console.error("--attack needs root, to be several users");
  process.exit(2);
}
const stopping = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stopping.abort());

console.log(
  `${minutes} min, seed ${seed}, load ${load}${killHub ? ", the hub and its keeper are killed too" : ""}${attack ? ", another user attacks" : ""}`,
);
const run = await soak({
  minutes,
  seed,
  load,
  killHub,
  attack,
  machineWide,
  operationMs,
  sampleSeconds,
  signal: stopping.signal,
  onSample: (sample) => console.log(JSON.stringify(sample)),
});
const wrong = judge(run);
if (stopping.signal.aborted) wrong.push("ended early by a signal");
const report = {
  verdict: wrong.length === 0 ? "passed" : "failed",
  wrong,
  date: new Date().toISOString().slice(0, 10),
  machine: {
    cores: cpus().length,
    cpu: cpus()[0]?.model,
    kernel: release(),
    node: process.version,
  },
  minutes,
  seed,
  load,
  killHub,
  attacks: run.attacks,
  limits: {
    operationMs,
    rssGrowthMiB: attack ? RSS_GROWTH_ATTACKED_MIB_MAX : RSS_GROWTH_MIB_MAX,
  },
  clients: run.clients,
  hubKills: run.hubKills,
  keeperKills: run.keeperKills,
  operations: Object.fromEntries(
    Object.entries(run.counts).sort(([one], [other]) => (one < other ? -1 : 1)),
  ),
  begin: run.begin,
  samples: run.samples,
  end: run.end,
};
if (values.out !== undefined) writeFileSync(values.out, `${JSON.stringify(report, null, 2)}\n`);
console.log(
  `clients: ${JSON.stringify(run.clients)}; hubs killed: ${run.hubKills}, keepers: ${run.keeperKills}`,
);
if (attack) console.log(`attacks: ${JSON.stringify(run.attacks)}`);
console.log(`operations: ${JSON.stringify(report.operations)}`);
console.log(`begin: ${JSON.stringify(run.begin)}\nend:   ${JSON.stringify(run.end)}`);
for (const line of wrong) console.error(`wrong: ${line}`);
console.log(report.verdict);
process.exitCode = wrong.length === 0 ? 0 : 1;

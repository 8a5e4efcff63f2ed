/**
 * Runs the benchmarks on one device and prints results beside what they compare with:
 * `npm run bench -- --device cuda:0`, or some of them with `--only timeline-ping-pong --only open`.
 */
import { writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { parseArgs } from "node:util";
import { Device } from "../src/index.js";
import { benchmarks } from "./benchmarks.js";
import { cClient } from "./c-client.js";
import { CPrograms } from "./c-programs.js";
import { channelSections } from "./channel/sections.js";
import { attacks } from "./hub/attacks.js";
import { hubScale } from "./hub/hub-scale.js";
import { journalStart } from "./hub/journal-start.js";
import { pageSpeed } from "./hub/page-speed.js";
import { producerKilled } from "./hub/producer-killed.js";
import { restart } from "./hub/restart.js";
import { watching } from "./hub/watching.js";
import { importTime } from "./import-time.js";
import { machines } from "./machines.js";
import { printRows, printSideBySide, type Row } from "./measure.js";
import { openLatency } from "./open-latency.js";
import { putThroughput } from "./put-throughput.js";
import { fullScale, pythonFrameworks } from "./python-frameworks.js";
import { pythonPackage } from "./python-package.js";
import { replaceCost } from "./replace.js";
import { sideBySide } from "./side-by-side.js";

const GiB = 1024 ** 3;
const { values } = parseArgs({
  options: {
    device: { type: "string", default: "auto" },
    json: { type: "string" },
    only: { type: "string", multiple: true },
    /** The size of the model that Python loads: 12 GiB on a GPU, 256 MiB on the host. */
    "model-bytes": { type: "string" },
    /** The array that goes from machine to machine; by default 1 GiB. */
    "copy-bytes": { type: "string" },
    "put-bytes": { type: "string", default: String(2 * GiB) },
    /** Iterations of the loops beside C. */
    iterations: { type: "string" },
    rounds: { type: "string", default: "5" },
  },
});

const names = [
  "import",
  "open",
  "c-client",
  "put",
  "replace",
  ...benchmarks.map(({ name }) => name),
  ...channelSections(values.device).map(({ key }) => key),
  "hub-scale",
  "watching",
  "page",
  "journal-start",
  "python-frameworks",
  "producer-killed",
  "restart",
  "attacks",
  "machines",
  "python",
];
const unknown = (values.only ?? []).filter((name) => !names.includes(name));
if (unknown.length > 0) {
  console.error(`No benchmark ${unknown.join(", ")}; there are ${names.join(", ")}`);
  process.exit(2);
}
const isWanted = (name: string) => values.only === undefined || values.only.includes(name);

const device = Device.open(values.device);
const { name, facts } = device;
device.close();
console.log(
  `${name}: ${facts.name}, ${facts.driverVersion}; ${cpus().length} cores; Node ${process.version}`,
);

const sections: Record<string, Row[]> = {};
const failures: string[] = [];
const section = async (key: string, title: string, measure: () => Row[] | Promise<Row[]>) => {
  if (!isWanted(key)) return;
  const rows = await tried(key, measure);
  sections[title] = rows;
  writeReport();
  printRows(`${title} (after ${Math.round(process.uptime())} s)`, rows);
};
/** After each section: whoever ends a run that takes too long keeps what was measured. */
function writeReport(): void {
  if (values.json === undefined) return;
  const machine = {
    device: facts.name,
    driver: facts.driverVersion,
    cores: cpus().length,
    cpu: cpus()[0]?.model,
    node: process.version,
  };
  const date = new Date().toISOString().slice(0, 10);
  writeFileSync(values.json, `${JSON.stringify({ date, machine, sections, failures }, null, 2)}\n`);
}
/** One failure must not lose the results of the others. */
async function tried(key: string, measure: () => Row[] | Promise<Row[]>): Promise<Row[]> {
  try {
    return await measure();
  } catch (error) {
    failures.push(`${key}: ${error instanceof Error ? error.message : String(error)}`);
    return [];
  }
}

await section("import", "Import", importTime);
await section("open", `Open by name on ${name}`, () => openLatency(name));
await section("c-client", `The client in C on ${name}`, () => cClient(name));
await section("put", `Put into ${name}`, () => putThroughput(name, Number(values["put-bytes"])));
await section("replace", `Put with replace on ${name}`, () => replaceCost(name));

const compared = benchmarks.filter((it) => isWanted(it.name));
if (compared.length > 0) {
  const title = `The same loops in TypeScript and in C on ${name}`;
  const iterations = values.iterations === undefined ? undefined : Number(values.iterations);
  const options = { device: name, rounds: Number(values.rounds), iterations };
  const rows: Row[] = [];
  using c = new CPrograms(name);
  for (const benchmark of compared)
    rows.push(...(await tried(benchmark.name, () => sideBySide(benchmark, c, options))));
  sections[title] = rows;
  writeReport();
  printSideBySide(title, rows);
}

for (const { key, title, measure } of channelSections(name)) await section(key, title, measure);

await section("python-frameworks", `Frameworks of Python on ${name}`, () => {
  const bytes = values["model-bytes"];
  return pythonFrameworks(name, fullScale(bytes === undefined ? undefined : Number(bytes), name));
});

await section("hub-scale", "A large hub, on the host device", () => hubScale());
await section("watching", "The cost of watching, on the host device", () => watching());
await section("page", "The dashboard's page, on the host device", () => pageSpeed());
await section("journal-start", "Start after a crash of a large hub", journalStart);
await section("producer-killed", "A producer is killed, on the host device", () =>
  producerKilled(),
);
await section("restart", "A keeper restarts the hub, on the host device", () => restart());

await section("attacks", "One user attacks the hub, another goes on, on the host device", () =>
  attacks(),
);

await section("machines", "From machine to machine", () => {
  const bytes = values["copy-bytes"];
  return machines(name, bytes === undefined ? {} : { byteLength: Number(bytes) });
});

const loops = values.iterations === undefined ? undefined : Number(values.iterations);
await section("python", "The Python package, on the host device", () => pythonPackage(loops));

for (const failure of failures) console.error(`\nFailed: ${failure}`);
writeReport();
const missed = Object.values(sections)
  .flat()
  .filter((row) => row.met === false);
process.exitCode = missed.length === 0 && failures.length === 0 ? 0 : 1;

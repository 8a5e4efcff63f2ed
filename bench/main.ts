/** Runs the benchmarks on one device and prints what was measured beside what it is compared with: `npm run bench -- --device cuda:0`. */
import { writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { parseArgs } from "node:util";
import { Device } from "../src/index.js";
import { importTime } from "./import-time.js";
import { printRows, type Row } from "./measure.js";
import { openLatency } from "./open-latency.js";
import { putThroughput } from "./put-throughput.js";

const GiB = 1024 ** 3;
const { values } = parseArgs({
  options: {
    device: { type: "string", default: "auto" },
    json: { type: "string" },
    "put-bytes": { type: "string", default: String(2 * GiB) },
  },
});

const device = Device.open(values.device);
const { name, facts } = device;
device.close();
console.log(`${name}: ${facts.name}, ${facts.driverVersion}; ${cpus().length} cores; Node ${process.version}`);

const sections: Record<string, Row[]> = {};
const section = async (title: string, measure: () => Row[] | Promise<Row[]>) => {
  const rows = await measure();
  sections[title] = rows;
  printRows(title, rows);
};
await section("Import", importTime);
await section(`Open by name on ${name}`, () => openLatency(name));
await section(`Put into ${name}`, () => putThroughput(name, Number(values["put-bytes"])));

if (values.json !== undefined) {
  const machine = {
    device: facts.name,
    driver: facts.driverVersion,
    cores: cpus().length,
    cpu: cpus()[0]?.model,
    node: process.version,
  };
  writeFileSync(
    values.json,
    `${JSON.stringify({ date: new Date().toISOString().slice(0, 10), machine, sections }, null, 2)}\n`,
  );
}
const missed = Object.values(sections)
  .flat()
  .filter((row) => row.met === false);
process.exitCode = missed.length === 0 ? 0 : 1;

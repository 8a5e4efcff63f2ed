// Runs the suites and demos of the bundle on this machine's GPU and writes OUTPUT/gpu-report.json: what ran, where, when, and how it ended.
// Exits 0 only when everything passed.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";

const out = process.argv[2] ?? ".";
const env = { ...process.env, REQUIRE_GPU: "1", NO_COLOR: "1" };
const started = new Date();
let failed = false;

function suite(name, folders) {
  const report = join(out, `${name}.json`);
  const result = spawnSync(process.execPath, ["scripts/test.mjs", "--prebuilt", `--report=${report}`, ...folders], {
    env,
    encoding: "utf8",
    timeout: 480_000,
    maxBuffer: 64 * 1024 * 1024,
  });
  writeFileSync(join(out, `${name}.log`), `${result.stdout}\n${result.stderr}`);
  const counts = existsSync(report)
    ? JSON.parse(readFileSync(report, "utf8"))
    : { error: String(result.error ?? result.status) };
  console.log(`${name}: ${JSON.stringify({ ...counts, failures: counts.failures?.length })}`);
  for (const failure of counts.failures ?? [])
    console.log(`  ${failure.file} > ${failure.name}\n    ${failure.message}`);
  if (result.status !== 0) failed = true;
  return counts;
}

function command(args) {
  const result = spawnSync(process.execPath, ["build/src/cli/launch.cjs", ...args], {
    env,
    encoding: "utf8",
    timeout: 120_000,
  });
  const output = `${result.stdout}${result.stderr}`;
  console.log(`$ cuda-ipc ${args.join(" ")}\n${output}`);
  if (result.status !== 0) failed = true;
  return { command: `cuda-ipc ${args.join(" ")}`, exitCode: result.status, output: ofAnyMachine(output) };
}

/** Output without what belongs to one machine alone: its kernel, its folders, the serial number of its GPU. */
function ofAnyMachine(output) {
  return output
    .trimEnd()
    .replaceAll(/\/[\w./-]*\/(libcuda\.so[\w.]*)/g, "$1")
    .replaceAll(/(GPU|MIG)-[0-9a-f-]{36}/g, "$1-...")
    .split("\n")
    .filter((line) => !/^ +kernel /.test(line));
}

/** The benchmarks, when BENCH=1: a goal that is missed is recorded and no failure of the run. */
function benchmarks() {
  if (process.env.BENCH !== "1") return undefined;
  const json = join(out, "bench.json");
  const pool = { ...env, UV_THREADPOOL_SIZE: String(Math.max(4, Math.min(16, availableParallelism()))) };
  const args = ["build/bench/main.js", "--device", "cuda:0", "--json", json];
  const result = spawnSync(process.execPath, args, { env: pool, encoding: "utf8", timeout: 300_000 });
  console.log(`${result.stdout}${result.stderr}`);
  return existsSync(json) ? JSON.parse(readFileSync(json, "utf8")) : { error: String(result.error ?? result.status) };
}

function gpus() {
  const query = "name,uuid,driver_version,memory.total,mig.mode.current";
  const result = spawnSync("nvidia-smi", [`--query-gpu=${query}`, "--format=csv,noheader"], { encoding: "utf8" });
  return (result.stdout ?? "")
    .trim()
    .split("\n")
    .map((line) => {
      const [name, , driver, memory, mig] = line.split(", ");
      return { name, driver, memory, mig };
    });
}

/** Those in examples/; each prints a few lines. */
const examples =
  "pool array-handle vmm legacy fork events fibonacci ring simple-ipc exchange consumer-first daemon".split(" ");

/** Without a device their processes are spread over all GPUs. */
const onAllGpus = ["simple-ipc", "exchange"];
const severalGpus = gpus().length > 1;

const report = {
  date: started.toISOString().slice(0, 10),
  gpus: gpus(),
  node: process.version,
  ...JSON.parse(readFileSync("version.json", "utf8")),
  suites: { conformance: suite("conformance", ["conformance"]), gpu: suite("gpu", ["gpu"]) },
  commands: [
    command(["doctor", "--device", "cuda:0"]),
    command(["demo", "--device", "cuda:0"]),
    command(["demo", "crash", "--device", "cuda:0"]),
    ...examples.map((name) => command(["demo", name, "--device", "cuda:0"])),
    ...(severalGpus ? onAllGpus.map((name) => command(["demo", name, "--processes", "4"])) : []),
  ],
  benchmarks: benchmarks(),
  seconds: 0,
  passed: false,
};
report.seconds = Math.round((Date.now() - started.getTime()) / 1000);
report.passed = !failed;
writeFileSync(join(out, "gpu-report.json"), `${JSON.stringify(report, null, 2)}\n`);
console.log(failed ? "GPU run: FAILED" : "GPU run: passed");
process.exit(failed ? 1 : 0);

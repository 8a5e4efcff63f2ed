// Runs parts of this bundle on the machine's GPU. Writes OUTPUT/gpu-report.json: what ran, where,
// when, and with which result.
// PARTS names the parts, by default "suites demos". MPS=1 and BENCH=1 add one each:
//   suites  the conformance and GPU suites, with REQUIRE_GPU=1
//   mps     the suites that use the GPU, each file under an MPS server of its own, and the files
//           that break such a server
//   demos   the doctor, all demos of the command line, also in two terminals, and the large
//           examples, on cuda:0
//   python  each framework of Python with each dtype in each direction
//   bench   the benchmarks, or those in BENCH_ONLY; a missed goal is recorded, but does not fail the
//           run. It ends after BENCH_SECONDS (300), and the report has what was measured by then.
//           Sections that were measured before, of the same bundle, stay.
// Writes the report after each part, and keeps the parts of earlier runs of the same bundle. Exits
// with 0 only if everything passed.
import { spawnSync } from "node:child_process";
import {
  appendFileSync,
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { MultiProcessService } from "../build/bench/channel/mps.js";
import { demoNames } from "./demo-names.mjs";
import { inTerminals } from "./gpu-terminals.mjs";

const out = process.argv[2] ?? ".";
const env = { ...process.env, REQUIRE_GPU: "1", NO_COLOR: "1" };
const reportPath = join(out, "gpu-report.json");
const startMs = Date.now();
let failed = false;

/** Runs test files, and appends their output to OUTPUT/NAME.log. */
function tests(name, files, extraEnv = {}) {
  const counts = join(tmpdir(), `cuda-ipc-${process.pid}-${name}.json`);
  const log = openSync(join(out, `${name}.log`), "a");
  const beganMs = Date.now();
  const { error } = spawnSync(
    process.execPath,
    ["scripts/test.mjs", "--prebuilt", `--report=${counts}`, ...files],
    {
      env: { ...env, ...extraEnv },
      stdio: ["ignore", log, log],
      timeout: 300_000,
    },
  );
  closeSync(log);
  const found = existsSync(counts)
    ? JSON.parse(readFileSync(counts, "utf8"))
    : {
        passed: 0,
        failed: 1,
        skipped: 0,
        files: {},
        failures: [{ file: files.join(" "), message: String(error ?? "it ended without a word") }],
        skips: [],
      };
  // Judged by the counts, because a file whose tests are all skipped has not failed.
  if (found.failed > 0 || found.passed + found.skipped === 0) failed = true;
  console.log(
    `${name} ${files.join(" ")}: ${found.passed} passed, ${found.failed} failed, ${found.skipped} skipped`,
  );
  for (const failure of found.failures)
    console.log(`  ${failure.file} > ${failure.name}\n    ${failure.message}`);
  return { ...found, seconds: Math.round((Date.now() - beganMs) / 1000) };
}

const gpuFiles = readdirSync("build/test/gpu").filter((file) => file.endsWith(".test.js"));
/** These kill clients of their own MPS servers, so they run when nothing else does. */
const breaking = gpuFiles.filter((file) => file.startsWith("mps-")).map((file) => `gpu/${file}`);
const others = gpuFiles.filter((file) => !file.startsWith("mps-")).map((file) => `gpu/${file}`);

const CONFORMANCE = "conformance/cuda.test.js";
/**
 * Many streams wait in these tests. By default a client of MPS has few queues, and a wait in one
 * holds up all work behind it.
 */
const manyQueues = { CUDA_DEVICE_MAX_CONNECTIONS: "32" };

function underMps() {
  const results = [];
  for (const file of [CONFORMANCE, ...others]) {
    const mps = MultiProcessService.start();
    if (typeof mps === "string") {
      failed = true;
      console.log(`mps: ${mps}`);
      return { error: mps };
    }
    const result = tests(
      "mps",
      [file],
      file === CONFORMANCE ? { ...mps.env, ...manyQueues } : mps.env,
    );
    if (result.passed > 0 && !mps.wasUsed) {
      failed = true;
      result.failures.push({ file, name: "under MPS", message: "no process used the MPS server" });
      console.log(`  ${file}: no process used the MPS server`);
    }
    if (result.failed > 0) appendFileSync(join(out, "mps.log"), mps.log);
    mps[Symbol.dispose]();
    results.push(result);
  }
  for (const file of breaking) results.push(tests("mps", [file]));
  return results.reduce((total, one) => ({
    passed: total.passed + one.passed,
    failed: total.failed + one.failed,
    skipped: total.skipped + one.skipped,
    files: { ...total.files, ...one.files },
    failures: [...total.failures, ...one.failures],
    skips: [...total.skips, ...one.skips],
    seconds: total.seconds + one.seconds,
  }));
}

const LAUNCHER = "build/src/cli/launch.cjs";

const command = (args) => ran(`cuda-ipc ${args.join(" ")}`, [LAUNCHER, ...args]);

/** Runs a program with Node. Records the reason if it skipped what it shows. */
function ran(words, args, extraEnv = {}) {
  const result = spawnSync(process.execPath, args, {
    env: { ...env, ...extraEnv },
    encoding: "utf8",
    timeout: 120_000,
  });
  const output = `${result.stdout}${result.stderr}`;
  console.log(`$ ${words}\n${output}`);
  if (result.status !== 0) failed = true;
  const skipped = /^Skipped "[^"]+": .+$/m.exec(output)?.[0];
  return {
    command: words,
    exitCode: result.status,
    ...(skipped === undefined ? {} : { skipped }),
    output: ofAnyMachine(output),
  };
}

/** Output without what identifies a machine: its kernel, folders and GPU serial number. */
function ofAnyMachine(output) {
  return output
    .trimEnd()
    .replaceAll(/\/[\w./-]*\/(libcuda\.so[\w.]*)/g, "$1")
    .replaceAll(/(GPU|MIG)-[0-9a-f-]{36}/g, "$1-...")
    .split("\n")
    .filter((line) => !/^ +kernel /.test(line));
}

/** Without a device, their processes spread over all GPUs. */
const onAllGpus = ["simple-ipc", "exchange"];

function demos() {
  return [
    command(["doctor", "--device", "cuda:0"]),
    ...demoNames(LAUNCHER).map((name) => command(["demo", name, "--device", "cuda:0"])),
    ...(gpus().length > 1
      ? onAllGpus.map((name) => command(["demo", name, "--processes", "4"]))
      : []),
    largeExample("inference-server"),
    ...(hasTorch() ? [largeExample("model-server")] : []),
  ];
}

/** Each side of a demo as a command of its own. */
async function terminals() {
  const pairs = await inTerminals(LAUNCHER, "cuda:0", env);
  for (const { sides } of pairs)
    for (const side of sides) {
      console.log(`$ ${side.command}\n${side.output}`);
      if (side.exitCode !== 0) failed = true;
      side.output = ofAnyMachine(side.output);
    }
  return pairs;
}

const hasTorch = () =>
  spawnSync(process.env.PYTHON ?? "python3", ["-c", "import torch"]).status === 0;

/** An example that is no demo, because it needs sharp or Python. It gets a hub of its own. */
function largeExample(name) {
  const folder = mkdtempSync(join(tmpdir(), `cuda-ipc-${name}-`));
  try {
    const args = ["--device", "cuda:0"];
    const words = `node examples/${name}/main.ts ${args.join(" ")}`;
    const program = `build/examples/${name}/main.js`;
    return ran(words, [program, ...args], { CUDA_IPC_SOCKET: join(folder, "hub.sock") });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function benchmarks(before) {
  const json = join(out, "bench.json");
  rmSync(json, { force: true });
  const limit = Number(process.env.BENCH_SECONDS ?? 300);
  const pool = {
    ...env,
    UV_THREADPOOL_SIZE: String(Math.max(4, Math.min(16, availableParallelism()))),
  };
  const only = (process.env.BENCH_ONLY ?? "").split(" ").filter((it) => it !== "");
  const args = ["build/bench/main.js", "--device", "cuda:0", "--json", json];
  for (const name of only) args.push("--only", name);
  const result = spawnSync(process.execPath, args, {
    env: pool,
    encoding: "utf8",
    timeout: limit * 1000,
    killSignal: "SIGKILL",
  });
  console.log(`${result.stdout}${result.stderr}`);
  const isCut = result.error !== undefined;
  if (isCut) failed = true;
  if (existsSync(json)) {
    const found = JSON.parse(readFileSync(json, "utf8"));
    if (isCut) found.failures.push(`the rest: not measured within ${limit} s`);
    return { ...found, sections: { ...before?.sections, ...found.sections } };
  }
  failed = true;
  return { ...before, error: String(result.error ?? result.status) };
}

/** The table of test/gpu/programs/python_matrix.py, which ends by itself after two minutes. */
function pythonMatrix() {
  const python = process.env.PYTHON ?? "python3";
  const program = "test/gpu/programs/python_matrix.py";
  const args = [program, "--device", "cuda:0", "--node", process.execPath];
  const result = spawnSync(python, args, { env, encoding: "utf8", timeout: 150_000 });
  const table = parsed(result.stdout) ?? {
    passed: false,
    error: String(result.error ?? result.stderr).slice(-1000),
  };
  if (!table.passed) failed = true;
  console.log(`python: ${JSON.stringify(table.cells ?? table.error)}`);
  for (const failure of table.failures ?? []) console.log(`  ${JSON.stringify(failure)}`);
  return table;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function gpus() {
  const query = "name,uuid,driver_version,memory.total,mig.mode.current";
  const result = spawnSync("nvidia-smi", [`--query-gpu=${query}`, "--format=csv,noheader"], {
    encoding: "utf8",
  });
  return (result.stdout ?? "")
    .trim()
    .split("\n")
    .map((line) => {
      const [name, , driver, memory, mig] = line.split(", ");
      return { name, driver, memory, mig };
    });
}

const parts = {
  suites: (report) => {
    report.suites = {
      ...report.suites,
      conformance: tests("conformance", ["conformance"]),
      gpu: tests("gpu", others),
    };
  },
  mps: (report) => {
    report.suites = { ...report.suites, mps: underMps() };
  },
  demos: async (report) => {
    report.commands = demos();
    report.terminals = await terminals();
  },
  python: (report) => {
    report.python = pythonMatrix();
  },
  bench: (report) => {
    report.benchmarks = benchmarks(report.benchmarks);
  },
};

const asked = (process.env.PARTS ?? "suites demos").split(" ").filter(Boolean);
if (process.env.MPS === "1") asked.push("mps");
if (process.env.BENCH === "1") asked.push("bench");
const unknown = asked.filter((part) => !Object.hasOwn(parts, part));
if (unknown.length > 0) {
  console.error(`PARTS has ${unknown.join(", ")}; there are ${Object.keys(parts).join(", ")}`);
  process.exit(2);
}

const bundle = JSON.parse(readFileSync("version.json", "utf8"));
const earlier = existsSync(reportPath) ? JSON.parse(readFileSync(reportPath, "utf8")) : undefined;
const kept = earlier?.commit === bundle.commit ? earlier : { seconds: 0, passed: true };
const report = {
  ...kept,
  date: new Date().toISOString().slice(0, 10),
  gpus: gpus(),
  node: process.version,
  ...bundle,
};
for (const part of asked) {
  console.log(`== ${part}, after ${Math.round((Date.now() - startMs) / 1000)} s`);
  await parts[part](report);
  report.seconds = kept.seconds + Math.round((Date.now() - startMs) / 1000);
  report.passed = kept.passed && !failed;
  // Without the folder of the bundle, which is a path of this machine.
  const text = JSON.stringify(report, null, 2).replaceAll(`${process.cwd()}/`, "");
  writeFileSync(reportPath, `${text}\n`);
}
console.log(failed ? "GPU run: FAILED" : "GPU run: passed");
process.exit(failed ? 1 : 0);

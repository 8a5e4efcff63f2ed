/** Runs the benchmarks with few iterations and checks their reports, not their times. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { benchmarks } from "../../../bench/benchmarks.js";
import { CPrograms } from "../../../bench/c-programs.js";
import type { Row } from "../../../bench/measure.js";
import { runTogether } from "../../../bench/processes.js";
import { sideBySide } from "../../../bench/side-by-side.js";
import { hasCode } from "../../../src/base/errors.js";
import { checkLeaks } from "../../support/leak-check.js";
import { expectLibcudaInC, skipLibcudaInC } from "../../support/libcuda-in-c.js";
import { TestFolder } from "../../support/test-folder.js";
import { soon, until } from "../../support/until.js";

const main = fileURLToPath(new URL("../../../bench/main.js", import.meta.url));
const compiler = ["cc", "gcc", "clang"].find((name) => spawnSync(name, ["--version"]).status === 0);
const noCompiler = compiler === undefined ? "no C compiler" : false;

function runMain(folder: string, args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const json = `${folder}/bench.json`;
  const all = [main, "--json", json, "--iterations", "200", "--rounds", "1", ...args];
  const { status, stdout, stderr } = spawnSync(process.execPath, all, {
    encoding: "utf8",
    env: { ...process.env, ...env },
    timeout: 60_000,
  });
  const report = existsSync(json) ? JSON.parse(readFileSync(json, "utf8")) : undefined;
  return { status, stdout, stderr, report };
}

describe("the benchmarks", () => {
  checkLeaks();

  it("measure the loops next to C on the host device, as a table and as JSON", {
    skip: noCompiler,
  }, () => {
    using folder = new TestFolder();
    const only = benchmarks.flatMap(({ name }) => ["--only", name]);
    const { status, stdout, stderr, report } = runMain(folder.path, ["--device", "host", ...only]);
    assert.equal(status, 0, stderr);
    assert.match(
      stdout,
      /^ +name +what +TypeScript us +C +ratio +goal\n +timeline-ping-pong .+\n +signal-to-cpu /m,
    );
    assert.match(stdout, /^ +Not in C: pool-alloc-free: the loop in C needs a GPU$/m);
    assert.deepEqual(Object.keys(report.sections), [
      "The same loops in TypeScript and in C on host",
    ]);
    const rows: Row[] = Object.values<Row[]>(report.sections).flat();
    assert.deepEqual(
      rows.map(({ name }) => name),
      benchmarks.flatMap((benchmark) => Object.keys(benchmark.rows)),
    );
    const beside = rows.filter(({ inC }) => typeof inC === "object");
    assert.deepEqual(
      beside.map(({ name }) => name),
      ["timeline-ping-pong", "signal-to-cpu"],
    );
    for (const { value, rounds, inC, ratio, goal } of beside) {
      assert.ok(typeof inC === "object" && rounds !== undefined);
      assert.equal(value, rounds.median);
      assert.equal(ratio, value / inC.median);
      assert.equal(goal, undefined, "a goal of a GPU");
    }
  });

  it("leave the sections that were measured before they were killed", async () => {
    using folder = new TestFolder();
    const json = folder.file("bench.json");
    const only = ["--only", "put", "--put-bytes", "65536", "--only", "pool-alloc-free"];
    const child = spawn(process.execPath, [main, "--device", "host", "--json", json, ...only], {
      stdio: ["ignore", "pipe", "ignore"],
      env: { ...process.env, TMPDIR: folder.path },
    });
    const title = "Put into host";
    let printed = "";
    for await (const text of child.stdout.setEncoding("utf8")) {
      printed += text;
      if (printed.includes(title)) break;
    }
    child.kill("SIGKILL");
    await once(child, "close");
    const { sections, failures } = JSON.parse(readFileSync(json, "utf8"));
    assert.deepEqual(Object.keys(sections), [title]);
    assert.deepEqual(failures, []);
  });

  it("refuse an unknown name, and list the known ones", () => {
    const { status, stderr } = runMain("/nowhere", ["--only", "nothing"]);
    assert.equal(status, 2);
    assert.match(
      stderr,
      /^No benchmark nothing; there are import, open, c-client, put, replace, timeline-ping-pong, /,
    );
  });

  it("go on without C if there is no compiler, and say why", async () => {
    const benchmark = benchmarks.find(({ name }) => name === "enqueue");
    assert.ok(benchmark);
    using c = new CPrograms("host");
    const rows = await sideBySide(benchmark, c, { device: "host", rounds: 1, iterations: 64 });
    assert.deepEqual(
      rows.map(({ name }) => name),
      Object.keys(benchmark.rows),
    );
    for (const { inC, ratio } of rows) assert.deepEqual([typeof inC, ratio], ["string", undefined]);
  });

  it("fail if one of two processes fails", async () => {
    const actor = fileURLToPath(new URL("./actors/dies.js", import.meta.url));
    const programs = ["first", "second"].map((role) => ({
      command: process.execPath,
      args: [actor, "host", "1", role],
    }));
    await assert.rejects(
      soon("the pair ends", runTogether(programs)),
      /dies\.js host 1 second ended \(7\): no more$/,
    );
  });

  it("fail when they time out", async () => {
    const forEver = { command: process.execPath, args: ["-e", "setInterval(() => {}, 1000)"] };
    await assert.rejects(runTogether([forEver], { timeoutMs: 50 }), (error) =>
      hasCode(error, "TIMEOUT"),
    );
  });
});

describe("the loops in C", { skip: noCompiler }, () => {
  checkLeaks();

  it("fail if one of their two processes is killed", async () => {
    using c = new CPrograms("host");
    const program = c.program("timeline-ping-pong", 1_000_000_000);
    assert.ok(typeof program !== "string");
    const child = spawn(program.command, program.args, { stdio: ["ignore", "ignore", "pipe"] });
    const ended = once(child, "close");
    let complaint = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      complaint += text;
    });
    const children = () =>
      readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").trim().split(" ");
    await until("both run", () => children().length === 2);
    const pids = children().map(Number);
    process.kill(pids[1] as number, "SIGKILL");
    assert.deepEqual(await soon("the program ends", ended), [1, null]);
    assert.match(complaint, /^process [12] of the pair ended with status \d+$/m);
    await until(
      "the other has ended too",
      () => !existsSync(`/proc/${pids[0]}`) || isZombie(pids[0] as number),
    );
  });
});

describe("the benchmarks on a libcuda in C", { skip: skipLibcudaInC() }, () => {
  checkLeaks();

  it("measure one process, next to C and the goals", () => {
    using folder = new TestFolder();
    const env = { LD_LIBRARY_PATH: expectLibcudaInC().folder };
    const args = ["--device", "cuda:0", "--only", "pool-alloc-free", "--only", "enqueue"];
    const { stdout, stderr, report } = runMain(folder.path, args, env);
    assert.match(stdout, /The same loops in TypeScript and in C on cuda:0/, stderr);
    assert.deepEqual(report.failures, []);
    const rows: Row[] = Object.values<Row[]>(report.sections).flat();
    assert.deepEqual(
      rows.map(({ name, comparedWith, goal, met }) => [name, comparedWith, goal, typeof met]),
      [
        ["pool-alloc-free", "C", "under 2 us", "boolean"],
        ["enqueue-signal", "C", undefined, "undefined"],
        ["enqueue-wait", "C", undefined, "undefined"],
        ["enqueue-batch-8", "C", undefined, "undefined"],
      ],
    );
  });

  it("report a failed loop in C in its column, and keep ours", () => {
    using folder = new TestFolder();
    // This libcuda opens no handle twice, like old drivers. The package counts opens itself.
    const env = { LD_LIBRARY_PATH: expectLibcudaInC().folder };
    const args = ["--device", "cuda:0", "--only", "legacy-reopen"];
    const { report } = runMain(folder.path, args, env);
    const [row]: Row[] = Object.values<Row[]>(report.sections).flat();
    assert.ok(row !== undefined && typeof row.inC === "string");
    assert.match(row.inC, /^legacy-reopen: failed: .*cuIpcOpenMemHandle.*\(208\)\n/);
    assert.deepEqual([row.goal, row.ratio], ["under 2 us", undefined]);
  });
});

const probe = spawnSync(process.env.PYTHON ?? "python3", [
  "-c",
  "import sys; sys.exit(sys.version_info < (3, 10))",
]);
const noPython = probe.status !== 0 && process.env.REQUIRE_PYTHON !== "1";

describe("the benchmarks of the Python package", { skip: noPython && "no python3 of 3.10" }, () => {
  checkLeaks();

  it("measure import, channels, hand-over and a worker", () => {
    using folder = new TestFolder();
    const { stderr, report } = runMain(folder.path, ["--device", "host", "--only", "python"]);
    assert.deepEqual(report?.failures, [], stderr);
    const rows: Row[] = Object.values<Row[]>(report.sections).flat();
    assert.deepEqual(
      rows.map(({ unit, goal, value }) => [unit, goal !== undefined, value > 0]),
      [
        ["ms", true, true],
        ["ms", false, true],
        ["messages/s", true, true],
        ["us", true, true],
        ["us", false, true],
        ["us", true, true],
      ],
    );
  });
});

function isZombie(pid: number): boolean {
  return / Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
}

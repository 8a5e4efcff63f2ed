/** What the documents say about the GPU reports, made by scripts/gpu-claims.mjs. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { longLines } from "./page-faults.js";

const SCRIPT = new URL("../../../scripts/gpu-claims.mjs", import.meta.url);
type Claims = Readonly<Record<string, string>>;
const { claimsOf, withClaims } = (await import(SCRIPT.href)) as {
  claimsOf(from: { report: object; benchmarks: object; demos: readonly string[] }): Claims;
  withClaims(page: string, claims: Claims): string;
};

const run = {
  date: "2026-01-02",
  gpus: [{ name: "NVIDIA H200", driver: "580.1" }],
  node: "26.10.0",
  commit: "0123456789abcdef+changes",
};
const ended = (command: string, exitCode = 0) => ({ command, exitCode });
const report = {
  ...run,
  suites: {
    conformance: { passed: 10, failed: 0, skipped: 2 },
    gpu: { passed: 5, failed: 1, skipped: 0 },
    mps: { passed: 4, failed: 0, skipped: 3, commit: "456789abcdef" },
  },
  commands: [
    ended("cuda-ipc doctor --device cuda:0"),
    ended("cuda-ipc demo --device cuda:0"),
    ended("cuda-ipc demo vmm --device cuda:0", 1),
    { ...ended("cuda-ipc demo kernels --device cuda:0"), skipped: 'Skipped "kernels": no NVRTC' },
  ],
  terminals: [
    { name: "vmm", sides: [ended("producer"), ended("consumer")] },
    { name: "ring", sides: [ended("producer"), ended("consumer", 1)] },
  ],
  python: {
    python: "3.12.3",
    cells: { view: 30, copy: 4, failed: 1 },
    frameworks: {
      torch: { versions: { torch: "2.11.0" }, cells: {} },
      cupy: { missing: "No module named 'cupy'", cells: {} },
    },
  },
};
const demos = ["share", "vmm", "kernels", "pool"];
const benchmarks = { ...run, gpus: [...run.gpus, ...run.gpus], date: "2026-01-01", commit: "89ab" };

describe("what the documents say about the GPU reports", () => {
  const claims = claimsOf({ report, benchmarks, demos });
  const said = (claims["gpu-report"] ?? "").replaceAll(/\s+/g, " ");

  it("names machine, date, commit and every count", () => {
    assert.match(
      said,
      /: one NVIDIA H200, driver 580\.1, Node\.js 26\.10\.0, 2026-01-02, commit `0123456\+changes`\./,
    );
    assert.match(said, /on both drivers: 10 tests passed, 0 failed, 2 skipped\./);
    assert.match(said, /- The GPU suite: 5 tests passed, 1 failed, 0 skipped\./);
    assert.match(said, /under MPS \(commit `456789a`\): 4 tests passed, 0 failed, 3 skipped\./);
    assert.match(said, /of another run: two NVIDIA H200, .* 2026-01-01, commit `89ab`\.$/);
  });

  it("names each command with its result, and each demo that did not run", () => {
    assert.match(said, /- Commands: 2 passed: `doctor`, `demo`; 1 failed: `demo vmm`; /);
    assert.match(said, /; 1 skipped: `demo kernels`\./);
    assert.match(said, /- Not in that run: `demo pool`, the inference server\./);
  });

  it("names the demos whose sides were commands of their own", () => {
    assert.match(said, /- Demos whose sides .+, as in two terminals: `vmm`; failed: `ring`\./);
    const without = claimsOf({ report: { ...report, terminals: undefined }, benchmarks, demos });
    assert.doesNotMatch(without["gpu-report"] ?? "", /terminals/);
  });

  it("counts the cells of Python's frameworks, and names their versions", () => {
    assert.match(said, /direction: 30 `view`, 4 `copy`, 1 `failed`; with Python 3\.12\.3,/);
    assert.match(said, /, torch 2\.11\.0, no cupy\./);
    const without = claimsOf({ report: { ...report, python: undefined }, benchmarks, demos });
    assert.doesNotMatch(without["gpu-report"] ?? "", /Python/);
  });

  it("fits into the pages, and the check finds a region that is out of date", () => {
    assert.deepEqual(longLines(claims["gpu-report"] ?? ""), []);
    const page = "# A\n\n<!-- begin: gpu-report -->\nold\n<!-- end: gpu-report -->\n\nend\n";
    const wanted = `# A\n\n<!-- begin: gpu-report -->\n${claims["gpu-report"]}\n<!-- end: gpu-report -->\n\nend\n`;
    assert.equal(withClaims(page, claims), wanted);
    assert.notEqual(withClaims(page, claims), page);
    assert.equal(withClaims(wanted, claims), wanted);
    const unknown = page.replaceAll("gpu-report", "gpu-other");
    assert.throws(() => withClaims(unknown, claims), /nothing to say about "gpu-other"/);
  });

  it("has its regions in README and docs/performance.md", () => {
    for (const [path, name] of [
      ["README.md", "gpu-report"],
      ["docs/performance.md", "gpu-benchmarks"],
    ] as const)
      assert.ok(readFileSync(path, "utf8").includes(`<!-- begin: ${name} -->\n`), path);
  });
});

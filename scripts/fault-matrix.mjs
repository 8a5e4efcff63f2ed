// Runs the fault matrix (test/process/matrix). Writes the result of each cell to
// docs/fault-matrix.json, and its tables into docs/reliability.md. Fails if a cell is missing or
// failed, which the tables show.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { release, tmpdir } from "node:os";
import { join } from "node:path";
import { compile } from "./compile.mjs";

// Compiled tests whose source is gone would run, too.
rmSync("build/test/process/matrix", { recursive: true, force: true });
await compile();
const matrix = (name) => import(`../build/test/support/matrix/${name}.js`);
const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-matrix-"));
try {
  const startMs = performance.now();
  const env = { ...process.env, FAULT_MATRIX_RECORDS: folder, NIGHTLY: "1" };
  spawnSync(process.execPath, ["scripts/test.mjs", "--prebuilt", "process/matrix"], {
    env,
    stdio: "inherit",
  });
  const seconds = Math.round((performance.now() - startMs) / 1000);
  const { faultsOf, withMatrix } = await matrix("records");
  const { expectationOf } = await matrix("expectation");
  const { protections } = await matrix("protections");
  const lines = readdirSync(folder).flatMap((file) =>
    readFileSync(join(folder, file), "utf8").trim().split("\n"),
  );
  const report = {
    date: new Date().toISOString().slice(0, 10),
    commit: execFileSync("git", ["rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim(),
    node: process.versions.node,
    kernel: release(),
    seconds,
    cells: lines.map((line) => JSON.parse(line)),
    protections,
  };
  writeFileSync("docs/fault-matrix.json", `${JSON.stringify(report, undefined, 2)}\n`);
  const page = "docs/reliability.md";
  writeFileSync(page, withMatrix(readFileSync(page, "utf8"), report));
  const wrong = faultsOf(report, (cell) => expectationOf(cell).sentence);
  for (const line of wrong) console.error(line);
  process.exitCode = wrong.length > 0 ? 1 : 0;
} finally {
  rmSync(folder, { recursive: true });
}

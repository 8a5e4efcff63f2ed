/** How the build finds out whether it has something to do. */
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, it } from "node:test";

const SCRIPT = new URL("../../../../scripts/changed-at.mjs", import.meta.url);
const { changedAt } = (await import(SCRIPT.href)) as { changedAt(path: string): number };

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "changed-at-"));
  mkdirSync(join(folder, "inner"));
  for (const file of ["a", "inner/b"]) writeFileSync(join(folder, file), "");
  for (const path of ["a", "inner/b", "inner", ""]) at(path, 1000);
});
afterEach(() => rmSync(folder, { recursive: true }));

function at(path: string, seconds: number): void {
  utimesSync(join(folder, path), seconds, seconds);
}

it("is the time of the latest change in a folder, and 0 without a file", () => {
  assert.equal(changedAt(folder), 1_000_000);
  at("inner/b", 2000);
  assert.equal(changedAt(folder), 2_000_000);
  at("a", 3000);
  assert.equal(changedAt(join(folder, "inner")), 2_000_000);
  assert.equal(changedAt(join(folder, "absent")), 0);
});

it("sees that a file was removed, by its folder", () => {
  rmSync(join(folder, "inner/b"));
  at("inner", 4000);
  assert.equal(changedAt(folder), 4_000_000);
});

it("leaves out what Python writes beside its sources", () => {
  mkdirSync(join(folder, "__pycache__"));
  at("", 1000);
  assert.equal(changedAt(folder), 1_000_000);
});

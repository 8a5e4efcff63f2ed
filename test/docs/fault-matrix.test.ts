import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { cellName, cells, faults, keeperFaults, steps } from "../support/matrix/cells.js";
import { expectationOf } from "../support/matrix/expectation.js";
import { protections } from "../support/matrix/protections.js";
import { faultsOf, type MatrixReport, withMatrix } from "../support/matrix/records.js";

const report = JSON.parse(readFileSync("docs/fault-matrix.json", "utf8")) as MatrixReport;
const sentenceOf = (cell: (typeof cells)[number]): string => expectationOf(cell).sentence;

describe("the fault matrix", () => {
  it("has 168 cells", () => {
    assert.equal(new Set(cells.map(cellName)).size, 168);
  });

  it("every cell was run and passed", () => {
    assert.deepEqual(faultsOf(report, sentenceOf), [], "run: npm run matrix");
  });

  it("the check finds a report that is incomplete, failed or out of date", () => {
    const [first, ...others] = report.cells;
    assert.ok(first !== undefined);
    const changed = (cell: object): string[] => {
      return faultsOf({ ...report, cells: [{ ...first, ...cell }, ...others] }, sentenceOf);
    };
    assert.equal(faultsOf({ ...report, cells: others }, sentenceOf).length, 1);
    assert.equal(faultsOf({ ...report, cells: [...report.cells, first] }, sentenceOf).length, 1);
    assert.equal(changed({ outcome: "failed" }).length, 1);
    assert.equal(changed({ sentence: "works" }).length, 1);
    assert.equal(changed({ step: "unheard of" }).length, 2);
  });

  it("for each step and each fault, a cell failed when its protection was removed", () => {
    assert.deepEqual(report.protections, protections, "run: npm run matrix");
    const known = new Set(cells.map(cellName));
    for (const of of [...steps, ...faults, ...keeperFaults]) {
      const failing = protections
        .filter((each) => each.of === of)
        .flatMap(({ seenFailing }) => seenFailing);
      assert.ok(failing.length > 0, `${of}: nothing was removed`);
      for (const name of failing) assert.ok(known.has(name), name);
    }
  });
});

describe("docs/reliability.md", () => {
  it("has the tables that the report makes", () => {
    const page = readFileSync("docs/reliability.md", "utf8");
    assert.equal(page, withMatrix(page, report), "run: npm run matrix");
  });
});

/**
 * Turns the cells of one role and some faults into tests in one world, and records each for the
 * table.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { appendFileSync } from "node:fs";
import { basename, join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { assertHeld, type Held, held, warmUp } from "../leak-check.js";
import { type Cell, cellName, type Fault, type Role, steps } from "./cells.js";
import { expectationOf } from "./expectation.js";
import { experiment } from "./experiment.js";
import type { CellRecord } from "./records.js";
import { World } from "./world.js";

/**
 * Makes a test of each cell. Leaks are checked once for all cells, because the world outlives each
 * single test.
 */
export function describeMatrix(role: Role, faults: readonly Fault[], url: string): void {
  describe(`a fault of the ${role}`, () => {
    let atStart: Held;
    let world: World | undefined;

    before(async () => {
      warmUp();
      // Node's first child with an IPC channel opens a descriptor that all later ones share.
      await once(fork("/dev/null", { stdio: ["ignore", "ignore", "ignore", "ipc"] }), "close");
      atStart = held();
    });
    after(async () => {
      await world?.[Symbol.asyncDispose]();
      await assertHeld(atStart);
    });

    for (const fault of faults) {
      for (const step of steps) {
        const cell = { role, fault, step };
        const { sentence } = expectationOf(cell);
        it(`${fault} during ${step}: ${sentence}`, async () => {
          try {
            world ??= await World.start(role === "keeper");
            const { systemCalls, codes } = await experiment(world, cell, expectationOf(cell));
            record(cell, url, { outcome: "passed", systemCalls, codes });
          } catch (error) {
            record(cell, url, { outcome: "failed", systemCalls: 0, codes: [] });
            // WHY a new world: a failed cell leaves this one in an unknown state.
            const spoiled = world;
            world = undefined;
            await spoiled?.[Symbol.asyncDispose]().catch(() => {});
            throw new Error(`${cellName(cell)} does not hold`, { cause: error });
          }
        });
      }
    }
  });
}

/** Writes a record for scripts/fault-matrix.mjs, which sets the folder. */
function record(
  cell: Cell,
  url: string,
  result: Pick<CellRecord, "outcome" | "systemCalls" | "codes">,
): void {
  const folder = process.env.FAULT_MATRIX_RECORDS;
  if (folder === undefined) return;
  const name = basename(fileURLToPath(url), ".js");
  const entry: CellRecord = {
    ...cell,
    ...result,
    sentence: expectationOf(cell).sentence,
    file: `test/process/matrix/${name}.ts`,
  };
  appendFileSync(join(folder, `${name}.jsonl`), `${JSON.stringify(entry)}\n`);
}

/**
 * Runs a step of an attacker between two file calls of the code under test, at each such moment in
 * turn. So a test of a race depends on no timing.
 */
import promises from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";

const CALLS = [
  "link",
  "lstat",
  "mkdir",
  "open",
  "readdir",
  "readlink",
  "realpath",
  "rename",
  "stat",
  "writeFile",
];

type Call = (...values: unknown[]) => Promise<unknown>;

/**
 * Calls `work` again and again. In its n-th run `step` is called right after the n-th file call.
 * Stops after the first run that has no n-th call. Returns the number of moments.
 */
export async function atEachMoment(work: () => Promise<void>, step: () => void): Promise<number> {
  const module = promises as unknown as Record<string, Call>;
  const originals = CALLS.map((name) => [name, module[name] as Call] as const);
  for (let moment = 1; ; moment += 1) {
    let calls = 0;
    for (const [name, call] of originals) {
      module[name] = async (...values) => {
        try {
          return await call(...values);
        } finally {
          calls += 1;
          if (calls === moment) step();
        }
      };
    }
    syncBuiltinESMExports();
    try {
      await work();
    } finally {
      Object.assign(module, Object.fromEntries(originals));
      syncBuiltinESMExports();
    }
    if (calls < moment) return moment - 1;
  }
}

/** Surroundings made up for a test: files in a temporary folder, an environment, and free space. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { TestContext } from "node:test";
import type { Check } from "../../../../src/cli/doctor/check.js";
import {
  type Space,
  type Surroundings,
  surroundingsUnder,
} from "../../../../src/cli/doctor/surroundings.js";

interface Made {
  readonly files?: Readonly<Record<string, string>>;
  readonly links?: Readonly<Record<string, string>>;
  readonly env?: NodeJS.ProcessEnv;
  readonly shm?: Space;
}

/** Makes surroundings with only the given files. The folder is removed with the test. */
export function surroundingsOf(
  t: TestContext,
  { files = {}, links = {}, env = {}, shm }: Made,
): Surroundings {
  const root = mkdtempSync(join(tmpdir(), "cuda-ipc-around-"));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  const place = (path: string) => {
    const at = join(root, path);
    mkdirSync(dirname(at), { recursive: true });
    return at;
  };
  for (const [path, text] of Object.entries(files)) writeFileSync(place(path), text);
  for (const [path, target] of Object.entries(links)) symlinkSync(target, place(path));
  return { ...surroundingsUnder(root, env), space: () => shm };
}

/** All text that the checks of this name print for people. */
export function wordsOf(checks: readonly Check[], name: string): string {
  return checks
    .filter((check) => check.name === name)
    .flatMap(({ detail, notes = [], toDo }) => [
      detail,
      ...notes,
      ...(toDo === undefined ? [] : [`to do: ${toDo}`]),
    ])
    .join("\n");
}

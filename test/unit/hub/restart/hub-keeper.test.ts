/** A keeper that dies at once: the next ones come ever more rarely, and the log says why. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { describe, it, type TestContext } from "node:test";
import type { FdStore } from "../../../../src/hub/restart/fd-store.js";
import { HubKeeper } from "../../../../src/hub/restart/hub-keeper.js";
import { KeeperProcess } from "../../../../src/hub/restart/keeper-process.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { TestFolder } from "../../../support/test-folder.js";

const MINUTE_MS = 60_000;
const STEP_MS = 1;

const storesNothing = { pending: 0, begin: () => {}, manageless: () => {} } as unknown as FdStore;

function settings(log: (message: string) => void) {
  return {
    command: ["/bin/false"],
    logSettings: { level: "info", format: "text" } as const,
    store: storesNothing,
    log: (_event: string, message: string) => log(message),
  };
}

/** Keepers that live for `lifeMs` each. Counts their starts in each minute. */
function startsByMinute(context: TestContext, lifeMs: number, minutes: number): number[] {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  let nowMs = 0;
  let starts = 0;
  const process = { pid: 7, socket: undefined, words: () => "", kill: () => {}, close: () => {} };
  const start = ((_settings: unknown, _path: unknown, onEnd: () => void) => {
    starts += 1;
    setTimeout(onEnd, lifeMs);
    return process;
  }) as unknown as typeof KeeperProcess.start;
  const keeper = new HubKeeper(
    settings(() => {}),
    start,
    () => nowMs,
  );
  keeper.begin("/hub.sock");
  const found = Array.from({ length: minutes }, () => {
    const before = starts;
    for (const end = nowMs + MINUTE_MS; nowMs < end; nowMs += STEP_MS)
      context.mock.timers.tick(STEP_MS);
    return starts - before;
  });
  keeper.close();
  return found;
}

describe("a keeper that dies at once", () => {
  checkLeaks();

  it("is replaced ever more rarely, at last once a minute", (context) => {
    const [first = 0, ...later] = startsByMinute(context, 1, 6);
    assert.ok(first >= 10 && first <= 20, `${first} starts in the first minute`);
    // Each pause is cut by up to a half.
    for (const count of later) assert.ok(count <= 2, `${count} starts in a later minute`);
  });

  it("is replaced soon if the one before had lived for long", (context) => {
    const [first = 0, second = 0] = startsByMinute(context, 15_000, 2);
    assert.ok(first + second >= 7, `${first + second} keepers of 15 s in two minutes`);
  });

  it("is named with its last error", async () => {
    using folder = new TestFolder();
    const { execPath } = process;
    const dies = 'echo "Error [X]: no valibot" >&2; echo "    at main.js" >&2; exit 1';
    writeFileSync(folder.file("node"), `#!/bin/sh\n${dies}\n`, { mode: 0o700 });
    process.execPath = folder.file("node");
    let keeper: HubKeeper | undefined;
    // Nothing of a keeper keeps a process alive.
    const alive = setInterval(() => {}, 1000);
    try {
      const message = await new Promise<string>((resolve) => {
        keeper = new HubKeeper(settings(resolve), KeeperProcess.start, () => 0);
        keeper.begin(folder.socket);
      });
      const words = /^keeper \d+ has ended at once \(Error \[X\]: no valibot\): another one/;
      assert.match(message, words);
    } finally {
      process.execPath = execPath;
      clearInterval(alive);
      keeper?.close();
    }
  });
});

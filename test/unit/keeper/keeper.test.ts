import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { limits } from "../../../src/base/limits.js";
import { noLog } from "../../../src/base/log-events.js";
import { Keeper } from "../../../src/keeper/keeper.js";
import { LEAVING } from "../../../src/keeper/keeper-names.js";
import { createBell } from "../../../src/os/bell.js";
import { openFilesMax } from "../../../src/os/open-file.js";
import { openPidfd } from "../../../src/os/process-watch.js";
import { SeqpacketSocket } from "../../../src/os/seqpacket.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestFolder } from "../../support/test-folder.js";
import { until } from "../../support/until.js";

const TELLS = fileURLToPath(new URL("./actors/tells-kept.js", import.meta.url));
/** With names of 255 characters, more than Linux takes for all variables of a process (2 MiB). */
const MESSAGES = 34;
const FDS = MESSAGES * limits.scmRightsFdsMax;

describe("Keeper", { skip: openFilesMax() < 2 * FDS && "too few files may be open" }, () => {
  checkLeaks();

  it("starts a hub with more descriptors than their names fit into variables", async () => {
    using folder = new TestFolder();
    const out = folder.file("names");
    const hub = spawn("sleep", ["60"]);
    const pidfd = openPidfd(hub.pid as number);
    assert.ok(pidfd !== undefined);
    const [mine, its] = SeqpacketSocket.pair();
    const command = [process.execPath, TELLS, out];
    const keeper = new Keeper({
      command,
      socket: its.fd,
      hubSocket: mine.fd,
      hub: pidfd,
      log: noLog,
    });
    try {
      using bell = createBell();
      const fds = Array.from({ length: limits.scmRightsFdsMax }, () => bell);
      const nameOf = (index: number) => `o${index}`.padEnd(255, "x");
      for (let index = 0; index < MESSAGES; index += 1) {
        const text = Buffer.from(`FDSTORE=1\nFDNAME=${nameOf(index)}`);
        await until("there is room", () => mine.trySend(text, fds));
      }
      hub.kill("SIGKILL");
      await until("the next hub has its descriptors", () => existsSync(out));
      const names = JSON.parse(readFileSync(out, "utf8")) as string[];
      const stored = names.filter((name) => name.length === 255);
      assert.deepEqual([stored.length, new Set(stored).size], [FDS, MESSAGES]);
      assert.deepEqual(names.filter((name) => name.length < 255).sort(), ["keeper", "keeper.pid"]);
    } finally {
      keeper.close();
      hub.kill("SIGKILL");
    }
  });

  it("starts the next hub at once after each that leaves on purpose, however often", async () => {
    const hub = spawn("sleep", ["60"]);
    const pidfd = openPidfd(hub.pid as number);
    assert.ok(pidfd !== undefined);
    const [mine, its] = SeqpacketSocket.pair();
    const pauses: number[] = [];
    const keeper = new Keeper({
      command: ["/bin/true"],
      socket: its.fd,
      hubSocket: mine.fd,
      hub: pidfd,
      log: (_event, message) => {
        pauses.push(Number(/in (\d+) ms/.exec(message)?.[1]));
        mine.trySend(Buffer.from("READY=1"));
        mine.trySend(Buffer.from(LEAVING));
      },
    });
    try {
      mine.trySend(Buffer.from(LEAVING));
      hub.kill("SIGKILL");
      await until("eight hubs have left", () => pauses.length >= 8);
      assert.deepEqual(new Set(pauses), new Set([1]));
    } finally {
      keeper.close();
      hub.kill("SIGKILL");
    }
  });
});

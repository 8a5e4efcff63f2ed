/** Supervisors that end one program with all its descendants, such as pm2 and nodemon. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { connect } from "../../../src/client/connect.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { hubAt, TestFolder } from "../../support/test-folder.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";

const JOINS = new URL("./actors/joins.js", import.meta.url);
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR2"] as const;

describe("a hub that a program started", () => {
  checkLeaks();

  it("is no descendant of the program, and in a session of its own", async () => {
    await using folder = new TestFolder();
    await using program = new Actor(JOINS, { args: [folder.socket, "60000"] });
    await program.says();
    program.goOn();
    const { pid } = (await program.says()) as { pid: number };
    await until("the starter has ended", () => !ancestorsOf(pid).includes(program.pid));
    assert.notEqual(sessionOf(pid), sessionOf(program.pid));
    program.goOn();
    assert.equal(await program.exited(), 0);
  });

  for (const signal of SIGNALS) {
    it(`goes on after ${signal} while it keeps something, and ends by it when it is idle`, async () => {
      await using testHub = await TestHub.start({ log: true });
      const hub = await connect({ socket: testHub.socket, start: false, device: "host" });
      (await hub.put("model", Uint8Array.of(7), { lifetime: "pinned" })).close();
      testHub.kill(signal);
      await until("the signal is in the log", () =>
        readFileSync(testHub.folder.file("log"), "utf8").includes(`${signal} does not end the hub`),
      );
      using model = await hub.open("model", { dtype: "uint8" });
      assert.deepEqual(await model.read(), Uint8Array.of(7));
      await hub.remove("model");
      model.close();
      await hub.close();
      // The end of the client reaches the hub after the client's close has returned.
      await until("it has no clients, and ends", () => {
        testHub.kill(signal);
        return hubAt(testHub.socket) === undefined;
      });
      await testHub.exited();
    });
  }
});

interface Stat {
  readonly parent: number;
  readonly session: number;
}

/** https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html */
function statOf(pid: number): Stat {
  const text = readFileSync(`/proc/${pid}/stat`, "latin1");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return { parent: Number(fields[1]), session: Number(fields[3]) };
}

function sessionOf(pid: number): number {
  return statOf(pid).session;
}

function ancestorsOf(pid: number): number[] {
  const found: number[] = [];
  for (let { parent } = statOf(pid); parent > 1; { parent } = statOf(parent)) found.push(parent);
  return found;
}

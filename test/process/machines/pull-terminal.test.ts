/** `cuda-ipc pull` in a pseudo-terminal: a progress bar that leaves nothing behind. */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { TwoMachines } from "../../support/machines/two-machines.js";
import { until } from "../../support/until.js";
import { skipTerminal, TerminalRig } from "../cli/terminal-rig.js";

const BYTES = 64 * 1024 * 1024;
const BAR = /^Copying █*░+ \d+% {2}\d[\d.]* \w+ of 64 MiB {2}[\d.]+ \w+\/s$/m;
/** A piece of many, so that a part of the array is there when the sender stops. */
const STEP = 30;

describe("cuda-ipc pull in a terminal", { skip: skipWithoutEngines || skipTerminal }, () => {
  let site: TwoMachines;

  before(async () => {
    site = await TwoMachines.start();
    const { one, hubOfOne } = site;
    (await hubOfOne.put("large", new Uint8Array(BYTES).fill(1), { lifetime: "pinned" })).close();
    await one.says('announced: "large"');
  });
  after(() => site?.[Symbol.asyncDispose]());
  afterEach(() => site.one.signalBridge("SIGCONT"));

  /** Begins to pull. Resolves when the sender stands still, after a part of the bytes. */
  async function pulling(): Promise<TerminalRig> {
    const { one, other } = site;
    const rig = await TerminalRig.open();
    one.order({ signal: "SIGSTOP", at: STEP });
    rig.start("pull", "large", "--socket", other.hub.socket);
    await one.untilStopped();
    return rig;
  }

  it("shows how far it is and how fast, and erases the bar at the end", async () => {
    await using rig = await pulling();
    const shown = await rig.shows(BAR);
    assert.equal(rig.screen.cursorVisible, false, shown);
    site.one.signalBridge("SIGCONT");
    const ended = await rig.shows(/^ended 0$/m);
    assert.match(ended, /^"large" is here: a copy from "one", 64 MiB in [\d.]+ m?s, /m);
    assert.doesNotMatch(ended, /Copying/);
    await rig.isSane();
    await site.hubOfOther.remove("large");
  });

  it("ends at Ctrl-C, with the bar erased, and gives the copy up", async () => {
    await using rig = await pulling();
    await rig.shows(BAR);
    rig.press("\u0003");
    const ended = await rig.shows(/^ended 130$/m);
    assert.doesNotMatch(ended, /Copying/);
    await rig.isSane();
    site.one.signalBridge("SIGCONT");
    await until("nothing of it is left", async () => (await site.hubOfOther.list()).length === 0);
  });
});

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { after, describe, it } from "node:test";
import { HubNames } from "../../../../src/cli/completion/hub-names.js";
import { results } from "../../../support/messages.js";
import { obliging, type Script, ScriptedHub } from "../../../support/scripted-hub.js";
import { TestFolder } from "../../../support/test-folder.js";
import { until } from "../../../support/until.js";
import { ProgramRig } from "../program-rig.js";

/** No working hub needs as long. */
const PATIENT_MS = 30_000;

const rig = new ProgramRig();

/** Calls `use` with the names of the hub in a folder. */
async function withNames<T>(
  folder: TestFolder,
  limitMs: number,
  use: (names: HubNames) => Promise<T>,
): Promise<T> {
  const earlier = process.env.CUDA_IPC_SOCKET;
  process.env.CUDA_IPC_SOCKET = folder.socket;
  try {
    return await use(new HubNames(rig.context, limitMs));
  } finally {
    if (earlier === undefined) delete process.env.CUDA_IPC_SOCKET;
    else process.env.CUDA_IPC_SOCKET = earlier;
  }
}

const [
  {
    objects: [summary],
  },
] = results.list as unknown as [{ objects: [{ name: string }] }];

function listing(...names: readonly string[]): Script {
  return () => ({ objects: names.map((name) => ({ ...summary, name })), next: null });
}

describe("HubNames", () => {
  after(() => rig[Symbol.dispose]());

  it("has no names without a hub, and starts none", async () => {
    using folder = new TestFolder();
    assert.deepEqual(await withNames(folder, PATIENT_MS, (names) => names.objects()), []);
    assert.deepEqual(await withNames(folder, PATIENT_MS, (names) => names.arrays("frame")), []);
    assert.deepEqual(readdirSync(folder.path), []);
  });

  it("describes what the hub lists", async () => {
    using folder = new TestFolder();
    using _hub = new ScriptedHub(folder.socket, obliging({ list: listing("a:1", "b") }));
    const found = await withNames(folder, PATIENT_MS, (names) => names.objects("array"));
    assert.deepEqual(
      found.map(({ value }) => value),
      ["a:1", "b"],
    );
    for (const { text } of found) assert.match(text ?? "", /^\w+\[.*\], \d+ \w+$/);
    assert.deepEqual(await withNames(folder, PATIENT_MS, (names) => names.objects("channel")), []);
  });

  it("has no names if the hub answers with one that cannot be", async () => {
    for (const name of ["$(reboot)", "new\nline", "\u001b[2J", "two words", ""]) {
      using folder = new TestFolder();
      using _hub = new ScriptedHub(folder.socket, obliging({ list: listing("good", name) }));
      assert.deepEqual(await withNames(folder, PATIENT_MS, (names) => names.objects()), [], name);
    }
  });

  for (const op of ["hello", "list"]) {
    it(`has no names if the hub answers ${op} too late`, async () => {
      using folder = new TestFolder();
      const answer = obliging({ list: listing("frame") });
      let limitMs = 25;
      const late: Script = (request, connection) => {
        const result = answer(request, connection) as Record<string, unknown>;
        if (request.op !== op) return result;
        setTimeout(() => connection.reply(request.id, result), 40 * limitMs).unref();
        return undefined;
      };
      using hub = new ScriptedHub(folder.socket, late);
      await until("the hub is asked within the limit", async () => {
        limitMs *= 2;
        assert.deepEqual(await withNames(folder, limitMs, (names) => names.objects()), []);
        return hub.connections.some(({ ops }) => ops.includes(op));
      });
    });
  }
});

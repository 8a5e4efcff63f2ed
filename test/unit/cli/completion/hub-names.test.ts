import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { describe, it } from "node:test";
import { HubNames } from "../../../../src/cli/completion/hub-names.js";
import { results } from "../../../support/messages.js";
import { obliging, type Script, ScriptedHub } from "../../../support/scripted-hub.js";
import { TestFolder } from "../../../support/test-folder.js";
import { ProgramRig } from "../program-rig.js";

/** No working hub needs as long. */
const PATIENT_MS = 30_000;

/** Calls `use` with the names of the hub in a folder. */
async function withNames<T>(
  folder: TestFolder,
  limitMs: number,
  use: (names: HubNames) => Promise<T>,
): Promise<T> {
  const earlier = process.env.CUDA_IPC_SOCKET;
  process.env.CUDA_IPC_SOCKET = folder.socket;
  using rig = new ProgramRig();
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

  for (const op of ["hello", "list", "inspect"]) {
    it(`has no names if the hub does not answer ${op} in time`, async () => {
      using folder = new TestFolder();
      using hub = new ScriptedHub(folder.socket, obliging({ [op]: () => undefined }));
      const ask = (names: HubNames) => (op === "inspect" ? names.arrays("x") : names.objects());
      assert.deepEqual(await withNames(folder, 50, ask), []);
      await hub.heard(op);
    });
  }
});

/**
 * Links that another user lays between two steps of a load or of a write.
 *
 * ALONE: it intercepts the file calls of this process.
 */
import assert from "node:assert/strict";
import {
  chmodSync,
  existsSync,
  lchownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { describe, it } from "node:test";
import type { ReceivedSlot } from "../../../src/channel/received-slot.js";
import { fileSink } from "../../../src/cli/channel/message-sinks.js";
import type { CommandContext } from "../../../src/cli/command-context.js";
import { writeFileAtomically, writeFolderAtomically } from "../../../src/files/atomic-write.js";
import { LoadSource } from "../../../src/files/load-source.js";
import { ownIdentity } from "../../../src/os/process-identity.js";
import { writeHandleFile } from "../../../src/peer/handle-file.js";
import { tokenIn } from "../../../src/web/token-file.js";
import { atEachMoment } from "../../support/at-each-moment.js";
import { checkLeaks } from "../../support/leak-check.js";
import { sharedArray } from "../../support/messages.js";
import { skipUnlessRoot } from "../../support/other-user.js";
import { indexText, safetensorsFile, writeFolder } from "../../support/safetensors-files.js";
import { type ScratchFolder, scratchFolder } from "./scratch-folder.js";

const OTHER_UID = 12_345;

/** Puts a link of another user where something is, or nothing yet. */
function becomesLink(path: string, target: string): void {
  if (existsSync(path)) renameSync(path, `${path}.was`);
  symlinkSync(target, path);
  if (process.geteuid?.() === 0) lchownSync(path, OTHER_UID, OTHER_UID);
}

/** Runs each attempt with files of its own. */
async function eachTime(
  work: (scratch: ScratchFolder) => Promise<void>,
  prepare: (scratch: ScratchFolder) => void,
  step: (scratch: ScratchFolder) => void,
): Promise<void> {
  let current: ScratchFolder | undefined;
  const attempt = async () => {
    using scratch = scratchFolder();
    current = scratch;
    prepare(scratch);
    await work(scratch);
  };
  const moments = await atEachMoment(attempt, () => {
    if (current !== undefined) step(current);
  });
  assert.ok(moments > 2, `${moments} moments`);
}

describe("a model folder in which a link appears at any moment of a load", () => {
  checkLeaks();

  const own = safetensorsFile({ a: { dtype: "uint8", shape: [3] } });
  const outer = safetensorsFile({ a: { dtype: "uint8", shape: [5] } });
  for (const swapped of ["sub", "sub/x.safetensors"]) {
    it(`never leads the load out of it by ${swapped}`, async () => {
      const prepare = ({ path }: ScratchFolder) =>
        writeFolder(path, {
          "model/model.safetensors.index.json": indexText({ a: "sub/x.safetensors" }),
          "model/sub/x.safetensors": own,
          "outside/sub/x.safetensors": outer,
        });
      let [loads, refusals] = [0, 0];
      const load = async ({ path }: ScratchFolder) => {
        try {
          await using source = await LoadSource.open(join(path, "model"), {});
          assert.equal(source.plan.byteLength, 3);
          loads += 1;
        } catch (error) {
          assert.match(String(error), /it is a link out of its folder/);
          refusals += 1;
        }
      };
      await eachTime(load, prepare, ({ path }) =>
        becomesLink(join(path, "model", swapped), join(path, "outside", swapped)),
      );
      assert.ok(loads > 0 && refusals > 0, `${loads} loads, ${refusals} refusals`);
    });
  }
});

const text = Buffer.from("new");
const slot = { byteLength: 3, bytes: text, array: { device: { cpuVisible: true } } };

/** Each way to write. All replace an existing file that they may replace. */
const writes: Readonly<Record<string, (path: string) => Promise<unknown>>> = {
  writeFileAtomically: (path) =>
    writeFileAtomically(path, { force: true }, (file) => file.writeFile(text)),
  writeFolderAtomically: (path) =>
    writeFolderAtomically(path, {}, async (folder) => {
      await folder.writeFile("a", (file) => file.writeFile(text));
      await folder.writeFile("b", (file) => file.writeFile(text));
    }),
  writeHandleFile: (path) => writeHandleFile(path, { ...sharedArray, exporter: ownIdentity() }),
  fileSink: async (path) => {
    const context = { signal: new AbortController().signal } as CommandContext;
    const sink = await fileSink(path, true, "raw", context);
    try {
      await sink.take(slot as unknown as ReceivedSlot);
    } finally {
      await sink.close();
    }
  },
  tokenIn: async (path) => tokenIn(path),
};

/**
 * The attacker replaces one of these while this user writes to `path`. The path leads through the
 * link `way`, which belongs to this user.
 */
const places: Readonly<Record<string, (path: string) => string>> = {
  "the folder": dirname,
  "this user's own link": (path) => join(dirname(path), "..", "way"),
  "the file": (path) => path,
  "the temporary file or folder": (path) => {
    const name = readdirSync(dirname(path)).find((name) => name.endsWith(".tmp"));
    return name === undefined ? path : join(dirname(path), name);
  },
};

for (const [name, write] of Object.entries(writes)) {
  describe(`${name} in a folder that all may write to`, { skip: skipUnlessRoot }, () => {
    checkLeaks();

    const file = name === "writeFolderAtomically" ? "model" : "keys";
    for (const [place, pathOf] of Object.entries(places)) {
      it(`follows no link of another user that takes the place of ${place}`, async () => {
        const prepare = ({ path }: ScratchFolder) => {
          for (const folder of ["home", "all", "all/sub"]) mkdirSync(join(path, folder));
          for (const folder of ["all", "all/sub"]) chmodSync(join(path, folder), 0o777);
          symlinkSync("sub", join(path, "all", "way"));
          writeFileSync(join(path, "home", "keys"), "old");
        };
        let written = 0;
        const attempt = async ({ path }: ScratchFolder) => {
          const home = join(path, "home");
          try {
            await write(join(path, "all", "way", file));
            written += 1;
          } catch {
            // Refused, or the file is where nobody sees it.
          }
          assert.deepEqual(readdirSync(home), ["keys"]);
          assert.equal(readFileSync(join(home, "keys"), "utf8"), "old");
        };
        await eachTime(attempt, prepare, ({ path }) => {
          const at = pathOf(join(path, "all", "sub", file));
          becomesLink(at, join(path, "home", basename(at) === file ? file : "."));
        });
        assert.ok(written > 0);
      });
    }
  });
}

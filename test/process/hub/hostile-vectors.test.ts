/**
 * docs/protocol/vectors/hostile.json: answers that an honest hub never gives. The clients in
 * TypeScript, Python and C come to the same verdict on each, can go on afterwards or have ended,
 * and leave no descriptor open.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import type { HostileFile, HostileVector } from "../../docs/vectors/hostile-answers.js";
import { PeerProcess } from "../../support/peer-process.js";
import { TestFolder } from "../../support/test-folder.js";
import { VectorHub } from "../../support/vector-hub.js";
import { CPrograms, skip } from "../c/c-programs.js";

const { files, vectors } = JSON.parse(
  readFileSync("docs/protocol/vectors/hostile.json", "utf8"),
) as { files: Record<string, HostileFile>; vectors: HostileVector[] };
const python = fileURLToPath(new URL("../../../../python", import.meta.url));
const actor = fileURLToPath(new URL("./actors/plays-vectors.js", import.meta.url));

/** A good answer. */
const warmUp = vectors.find(({ what }) => what === "array: no elements at the end");

/** Verdicts on what came with a lease, which goes back. */
const GRANTED = new Set("OK INVALID_DESCRIPTOR WRONG_KIND UNSUPPORTED_DTYPE READ_ONLY".split(" "));

/** Answers that are refused for what is beside a good lease, which goes back, too. */
const WITH_LEASE = /^[a-z ]+: (object|place): /;

type Player = (socket: string, calls: string[]) => PeerProcess;

const players: Readonly<Record<string, readonly [Player, string | false]>> = {
  TypeScript: [
    (socket, calls) => new PeerProcess(process.execPath, [actor, socket, ...calls]),
    false,
  ],
  Python: [
    (socket, calls) =>
      new PeerProcess(
        process.env.PYTHON ?? "python3",
        [`${python}/tests/plays_vectors.py`, socket, ...calls],
        { PYTHONPATH: `${python}/src`, PYTHONDONTWRITEBYTECODE: "1" },
      ),
    false,
  ],
  C: [(socket, calls) => new CPrograms().peer(socket, "plays", ...calls), skip],
};

for (const [language, [start, skipped]] of Object.entries(players)) {
  describe(`the client in ${language}, given what no honest hub answers`, { skip: skipped }, () => {
    it("comes to the verdict of the vectors, and leaks no descriptor", async () => {
      using folder = new TestFolder();
      // First a good answer: the client loads what it needs.
      assert.ok(warmUp);
      const played = [warmUp, ...vectors];
      using hub = new VectorHub(folder.socket, { files, vectors: played });
      await using peer = start(
        folder.socket,
        played.map(({ call }) => call),
      );
      const wrong: string[] = [];
      for (const [number, { what, call, verdict, sees }] of played.entries()) {
        const [found, got, next, left] = (await peer.said()) as [string, string, string, number];
        const isRight = found === verdict && (sees === undefined || got === sees);
        // It goes on, or has ended: then the error says so.
        const isClear = /^[A-Z_]*$/.test(next);
        const gives =
          (GRANTED.has(verdict) && !["connect", "create", "list"].includes(call)) ||
          WITH_LEASE.test(what);
        const isReleased = !gives || hub.hasReleased(number);
        if (isRight && isClear && left === 0 && isReleased) continue;
        const seen = sees === undefined ? "" : ` ${sees}`;
        wrong.push(
          `${what}: ${found} ${got}, then ${next}, ${left} left, lease ${isReleased}; wanted ${verdict}${seen}`,
        );
      }
      await peer.finish();
      assert.deepEqual(wrong, []);
    });
  });
}

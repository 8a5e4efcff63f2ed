import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import {
  parseSharedDocument,
  type SharedMemoryDocument,
} from "../../../src/wire/shared-document.js";
import { gpuArray, hostArray, hostBundle, sharedArray } from "../../support/messages.js";

const { exporter, fds } = sharedArray;

describe("parseSharedDocument", () => {
  const good: Record<string, SharedMemoryDocument> = {
    "an array on the host": sharedArray,
    "an array on a GPU": { ...sharedArray, descriptor: gpuArray },
    "a buffer": { ...sharedArray, kind: "buffer" },
    "a read-only object": { ...sharedArray, access: "read" },
  };
  for (const [what, document] of Object.entries(good)) {
    it(`accepts ${what}, also after it was text`, () => {
      assert.deepEqual(parseSharedDocument("it", JSON.parse(JSON.stringify(document))), document);
    });
  }

  const bad: Record<string, [unknown, RegExp]> = {
    nothing: [undefined, /expected/],
    "a text": [JSON.stringify(sharedArray), /expected/],
    "a list": [[sharedArray], /kind/],
    "no kind": [{ ...sharedArray, kind: undefined }, /kind/],
    "an unknown kind": [{ ...sharedArray, kind: "pool" }, /kind.*array.*buffer/],
    "another format": [{ ...sharedArray, format: "npy" }, /format/],
    "a later version": [{ ...sharedArray, version: 2 }, /version: expected 1, found 2/],
    "a field too many": [{ ...sharedArray, path: "/" }, /path/],
    "no process": [{ ...sharedArray, exporter: { ...exporter, pid: 0 } }, /exporter\.pid/],
    "a process that is no number": [
      { ...sharedArray, exporter: { ...exporter, pid: "1" } },
      /exporter\.pid/,
    ],
    "a start before the boot": [
      { ...sharedArray, exporter: { ...exporter, startTicks: -1 } },
      /startTicks/,
    ],
    "a boot that is a path": [
      { ...sharedArray, exporter: { ...exporter, bootId: "../x" } },
      /bootId/,
    ],
    "a socket with a relative path": [
      { ...sharedArray, fds: { ...fds, socket: "x.sock" } },
      /fds\.socket/,
    ],
    "a socket with a zero byte": [
      { ...sharedArray, fds: { ...fds, socket: "/x\0" } },
      /fds\.socket/,
    ],
    "a socket path that is too long": [
      { ...sharedArray, fds: { ...fds, socket: `/${"x".repeat(107)}` } },
      /fds\.socket/,
    ],
    "a token that is too short": [{ ...sharedArray, fds: { ...fds, token: "00" } }, /fds\.token/],
    "an unknown access": [{ ...sharedArray, access: "write" }, /access/],
    "a bundle": [
      { ...sharedArray, descriptor: hostBundle(1, 10) },
      /bundle in a document of kind array/,
    ],
    "more than its memory": [
      { ...sharedArray, descriptor: { ...hostArray, byteLength: 5000 } },
      /5000 bytes in memory/,
    ],
    "host memory on a GPU": [
      { ...sharedArray, descriptor: { ...gpuArray, mechanism: "memfd" } },
      /memfd on device cuda/,
    ],
  };
  for (const [what, [value, words]] of Object.entries(bad)) {
    it(`refuses ${what}`, () => {
      assert.throws(
        () => parseSharedDocument("the document", value),
        (error) => hasCode(error, "INVALID_DESCRIPTOR") && words.test(error.message),
      );
    });
  }
});

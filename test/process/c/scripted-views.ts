/** A hub that grants arrays which no library makes. */
import { writeSync } from "node:fs";
import { createMemoryFile } from "../../../src/os/memory-file.js";
import { obliging, ScriptedHub } from "../../support/scripted-hub.js";
import { TestFolder } from "../../support/test-folder.js";

/** A hub whose answers name memory of ten bytes, 0 to 9, in ways that fit or do not. */
export class ScriptedViews {
  readonly #folder = new TestFolder();
  readonly #memory = createMemoryFile("ten bytes", 10);
  readonly #hub: ScriptedHub;

  constructor() {
    const array = (shape: number[], strides: number[], byteOffset: number, dtype = "int8") => ({
      dtype,
      shape,
      strides,
      byteOffset,
    });
    const views: Record<string, object> = {
      reverse: array([3], [-1], 2),
      same: array([2, 2], [0, 0], 5),
      columns: array([2, 2], [4, 2], 1),
      beyond: array([3], [4], 2),
      before: array([3], [-4], 2),
      huge: array([2 ** 40, 2 ** 40], [2 ** 40, 1], 0),
      unaligned: array([2], [1], 1, "int16"),
      short: array([2], [1], 9),
      unknown: array([2], [1], 0, "int7"),
    };
    this.#hub = new ScriptedHub(
      this.#folder.socket,
      obliging({
        open: ({ name }) => ({
          result: {
            object: 1,
            lease: 1,
            descriptor: {
              version: 1,
              device: { kind: "host" },
              mechanism: "memfd",
              byteLength: 10,
              allocationByteLength: 10,
              content: { kind: "array", array: views[String(name)] },
            },
          },
          fds: [this.#memory],
        }),
      }),
    );
    writeSync(
      this.#memory.number,
      Uint8Array.from({ length: 10 }, (_, index) => index),
    );
  }

  get socket(): string {
    return this.#folder.socket;
  }

  [Symbol.dispose](): void {
    this.#hub[Symbol.dispose]();
    this.#memory.close();
    this.#folder[Symbol.dispose]();
  }
}

/** A runtime folder for this test and its processes. */
import { readdirSync } from "node:fs";
import { TestFolder } from "./test-folder.js";

export class TestRuntime {
  readonly folder = new TestFolder();
  readonly #before = process.env.CUDA_IPC_SOCKET;

  constructor() {
    process.env.CUDA_IPC_SOCKET = this.folder.socket;
  }

  file(name: string): string {
    return this.folder.file(name);
  }

  /** The names of the folder's files. */
  names(): string[] {
    return readdirSync(this.folder.path).sort();
  }

  [Symbol.dispose](): void {
    if (this.#before === undefined) delete process.env.CUDA_IPC_SOCKET;
    else process.env.CUDA_IPC_SOCKET = this.#before;
    this.folder[Symbol.dispose]();
  }
}

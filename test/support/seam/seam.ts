/** The test's side of a hub and keeper that die or stop at a given system call. See `inside.ts`. */
import { existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";
import type { SeamAction, SeamCounts } from "../matrix/fault-seam.js";
import { soon, until } from "../until.js";
import { type SeamOrder, type SeamRole, seamFile, seamSocket } from "./orders.js";

const INSIDE = new URL("./inside.js", import.meta.url).href;

/**
 * Creates a program to start instead of Node. It runs Node with `inside.ts`.
 * @param folder the existing folder of the test
 */
export function seamProgram(folder: string): string {
  const own = seamFolder(folder);
  mkdirSync(own, { mode: 0o700 });
  const program = `${own}/node`;
  const variables = {
    CUDA_IPC_SEAM_FOLDER: own,
    CUDA_IPC_SEAM_PROGRAM: program,
    NODE_OPTIONS: `--import=${INSIDE}`,
  };
  const words = Object.entries(variables).map(([name, value]) => `${name}='${value}'`);
  writeFileSync(program, `#!/bin/sh\n${words.join(" ")} exec '${process.execPath}' "$@"\n`, {
    mode: 0o700,
  });
  return program;
}

/** WHY its own folder: the hub watches the folder of its socket. */
function seamFolder(folder: string): string {
  return `${folder}/seam`;
}

/**
 * Makes the next hub or keeper of this folder do this at system call `at`, counted from its start.
 */
export function armNext(folder: string, role: SeamRole, action: SeamAction, at: number): void {
  const path = seamFile(seamFolder(folder), role);
  writeFileSync(`${path}.new`, JSON.stringify({ do: "arm", action, at } satisfies SeamOrder));
  renameSync(`${path}.new`, path);
}

/** Gives orders to one process. */
export class Seam {
  readonly #socket: Socket;
  readonly #lines: AsyncIterator<string>;

  private constructor(socket: Socket) {
    this.#socket = socket;
    this.#lines = createInterface({ input: socket })[Symbol.asyncIterator]();
  }

  /** @param pid of a hub or keeper, which may have started just now */
  static async of(folder: string, pid: number): Promise<Seam> {
    const path = seamSocket(seamFolder(folder), pid);
    await until(`process ${pid} takes orders`, () => existsSync(path));
    const socket = connect(path);
    // WHY ignored: an order to an ended process has no outcome, and `tell` returns undefined.
    socket.on("error", () => {});
    return new Seam(socket);
  }

  async arm(action: SeamAction, at: number): Promise<void> {
    await this.tell({ do: "arm", action, at });
  }

  /** Undefined if the process has ended. */
  async disarm(): Promise<SeamCounts | undefined> {
    return (await this.tell({ do: "disarm" })) as SeamCounts | undefined;
  }

  /** Gives an order and returns its outcome; undefined if the process ends first. */
  async tell(order: SeamOrder): Promise<unknown> {
    this.#socket.write(`${JSON.stringify(order)}\n`);
    const line = this.#lines.next().catch(() => ({ done: true, value: undefined }) as const);
    const { done, value } = await soon(`the order to ${order.do} is carried out`, line);
    return done === true ? undefined : JSON.parse(value);
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
  }
}

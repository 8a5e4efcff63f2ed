/** The test's side of a hub and keeper that die or stop at a given system call. See `inside.ts`. */
import { existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";
import type { SeamAction, SeamCounts } from "../matrix/fault-seam.js";
import { soon, until } from "../until.js";
import { type SeamOrder, type SeamRole, seamFile, seamSocket } from "./orders.js";

const INSIDE = new URL("./inside.js", import.meta.url).href;

/**
 * A program that runs Node with `inside.ts`, to be started in the place of Node.
 * @param folder of the test, which exists
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

/** WHY a folder of its own: the hub watches the one of its socket. */
function seamFolder(folder: string): string {
  return `${folder}/seam`;
}

/**
 * The next hub or keeper that starts in this folder does this at its n-th call, counted from its
 * start.
 */
export function armNext(folder: string, role: SeamRole, action: SeamAction, at: number): void {
  const path = seamFile(seamFolder(folder), role);
  writeFileSync(`${path}.new`, JSON.stringify({ do: "arm", action, at } satisfies SeamOrder));
  renameSync(`${path}.new`, path);
}

/** One process, to which orders are given. */
export class Seam {
  readonly #socket: Socket;
  readonly #lines: AsyncIterator<string>;

  private constructor(socket: Socket) {
    this.#socket = socket;
    this.#lines = createInterface({ input: socket })[Symbol.asyncIterator]();
  }

  /** @param pid of a hub or keeper, which may just have been started */
  static async of(folder: string, pid: number): Promise<Seam> {
    const path = seamSocket(seamFolder(folder), pid);
    await until(`process ${pid} takes orders`, () => existsSync(path));
    const socket = connect(path);
    // WHY: an order to a process that has ended has no outcome, which its end tells.
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

  /** What came of an order; undefined if the process ends before it says so. */
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

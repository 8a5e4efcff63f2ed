/** Removes objects one by one, for `rm` and `gc`. */
import type { Hub } from "../client/hub.js";
import type { CommandContext } from "./command-context.js";
import { printErrors } from "./terminal/error-report.js";

export interface Removable {
  readonly name: string;
  /** Removes the name only if it is this object's. */
  readonly id?: number;
  /** Removes the object only if nobody has held it since then. */
  readonly unheldSinceMs?: number | undefined;
}

/** Yields what was removed. Reports what was not, and goes on with the rest. @throws ABORTED */
export async function* removeNames<T extends Removable>(
  hub: Hub,
  objects: Iterable<T>,
  context: CommandContext,
): AsyncGenerator<T> {
  const { terminal, signal } = context;
  for (const object of objects) {
    const { name, id, unheldSinceMs } = object;
    try {
      await hub.remove(name, { object: id, unheldSinceMs, signal });
    } catch (error) {
      if (signal.aborted) throw error;
      printErrors(terminal, error);
      context.exitCode = 1;
      continue;
    }
    yield object;
  }
}

/**
 * What a page may do with one object: read what `cuda-ipc inspect` prints of it, and remove it.
 * Each is an ordinary client of the hub, for as long as it takes.
 */
import { Writable } from "node:stream";
import { CudaIpcError } from "../../base/errors.js";
import { connect } from "../../client/connect.js";
import type { Hub } from "../../client/hub.js";
import type { Inspection } from "../../client/hub-options.js";
import { textAnswer, type WebAnswer } from "../../web/web-messages.js";
import { printInspection } from "../inspect/inspection-text.js";
import { openedFacts } from "../inspect/opened-facts.js";
import { Terminal } from "../terminal/terminal.js";

/** The object that a page means. Its name may have been given to another object since. */
interface Meant {
  readonly name: string;
  readonly id: number;
}

export class ObjectActions {
  readonly #socket: string | undefined;
  #busy = false;

  constructor(socket: string | undefined) {
    this.#socket = socket;
  }

  /** Answers with the text of `cuda-ipc inspect`. */
  details(query: URLSearchParams, signal: AbortSignal): Promise<WebAnswer> {
    return this.#act(query, signal, async (hub, inspection) => {
      let text = "";
      const stream = new Writable({
        write(piece, _, done) {
          text += piece;
          done();
        },
      });
      const terminal = new Terminal(stream, stream);
      const opened = await openedFacts(hub, inspection, {}, { terminal, signal });
      printInspection(terminal, inspection, opened, false);
      return text.trimEnd();
    });
  }

  remove(query: URLSearchParams, signal: AbortSignal): Promise<WebAnswer> {
    return this.#act(query, signal, async (hub, { object: { name } }) => {
      await hub.remove(name, { signal });
      return `Removed ${name}.`;
    });
  }

  /** One at a time: it may read a whole array. */
  async #act(
    query: URLSearchParams,
    signal: AbortSignal,
    act: (hub: Hub, inspection: Inspection) => Promise<string>,
  ): Promise<WebAnswer> {
    const meant = meantBy(query);
    if (meant === undefined) return textAnswer(400, "Name an object and its number.");
    if (this.#busy) return textAnswer(503, "Another object is being read. Try again.");
    this.#busy = true;
    try {
      const socket = this.#socket;
      const program = "cuda-ipc dashboard";
      await using hub = await connect({ socket, program, start: false, reconnect: false, signal });
      const inspection = await hub.inspect(meant.name, { signal });
      if (inspection.object.object !== meant.id)
        return textAnswer(409, `${meant.name} is another object now.`);
      return textAnswer(200, await act(hub, inspection));
    } catch (error) {
      if (signal.aborted || !(error instanceof CudaIpcError)) throw error;
      return textAnswer(409, `${error.code}: ${error.message}`);
    } finally {
      this.#busy = false;
    }
  }
}

function meantBy(query: URLSearchParams): Meant | undefined {
  const name = query.get("name") ?? "";
  const id = Number(query.get("id") ?? "");
  return name === "" || !Number.isSafeInteger(id) || id < 1 ? undefined : { name, id };
}

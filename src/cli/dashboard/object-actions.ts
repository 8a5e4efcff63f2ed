/**
 * What a page may ask of one object, and its removal. All of it is done by one ordinary client of
 * the hub, one request at a time.
 */
import { Writable } from "node:stream";
import { CudaIpcError } from "../../base/errors.js";
import type { Hub } from "../../client/hub.js";
import type { Inspection } from "../../client/hub-options.js";
import { SharedArray } from "../../client/objects/shared-array.js";
import type { DeviceArray } from "../../gpu/arrays/device-array.js";
import { jsonAnswer, textAnswer, type WebAnswer } from "../../web/web-messages.js";
import { readerLines } from "../channel/channel-text.js";
import { contentFacts, objectFacts } from "../inspect/inspection-rows.js";
import { openedFacts } from "../inspect/opened-facts.js";
import { printable } from "../terminal/printable.js";
import { Terminal } from "../terminal/terminal.js";
import { arrayWords, contentWords, sizeWords } from "../terminal/words.js";
import { allValues, picture, sampledValues } from "./array-answers.js";
import { KeptHub } from "./kept-hub.js";

/** The object that a page means. Its name may have been given to another object since. */
interface Meant {
  readonly name: string;
  readonly id: number;
  /** The position of an array in a bundle. */
  readonly array: number | undefined;
}

type Work = (hub: Hub, inspection: Inspection, meant: Meant) => Promise<WebAnswer>;

/** More are refused: each page asks for one at a time. */
const WAITING_MAX = 8;
const ARRAYS_MAX = 2000;

export class ObjectActions {
  readonly #hub: KeptHub;
  #last: Promise<void> = Promise.resolve();
  #waiting = 0;

  constructor(socket: string | undefined) {
    this.#hub = new KeptHub(socket);
  }

  close(): Promise<void> {
    return this.#hub.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Answers with all that `cuda-ipc inspect` prints, but for what is read from the memory. */
  facts(query: URLSearchParams, signal: AbortSignal): Promise<WebAnswer> {
    return this.#act(query, signal, async (hub, inspection) => {
      const { object } = inspection;
      const context = { terminal: silentTerminal(), signal };
      const opened = await openedFacts(hub, inspection, { withoutValues: true }, context);
      const arrays = (opened.arrays ?? []).slice(0, ARRAYS_MAX).map((array) => ({
        name: printable(array.name),
        what: arrayWords(array),
        size: sizeWords(array.byteLength),
      }));
      return jsonAnswer({
        what: contentWords(object.descriptor),
        rows: [...objectFacts(inspection, opened), ...contentFacts(opened)].map((row) =>
          row.map(printable),
        ),
        lines: opened.channel === undefined ? [] : readerLines(opened.channel).map(printable),
        arrays,
        arraysLeftOut: (opened.arrays?.length ?? 0) - arrays.length,
        isArray: object.descriptor.content.kind === "array" && opened.unreadable === undefined,
      });
    });
  }

  /** Answers with statistics and a histogram of a sample, or with statistics of all elements. */
  values(query: URLSearchParams, signal: AbortSignal): Promise<WebAnswer> {
    return this.#read(query, signal, (array) =>
      query.get("all") === null
        ? sampledValues(array, signal)
        : allValues(array, silentTerminal(), signal),
    );
  }

  picture(query: URLSearchParams, signal: AbortSignal): Promise<WebAnswer> {
    const at = (query.get("at") ?? "").split(",").map((text) => (text === "" ? 0 : Number(text)));
    return this.#read(query, signal, (array) => picture(array, at, signal));
  }

  remove(query: URLSearchParams, signal: AbortSignal): Promise<WebAnswer> {
    return this.#act(query, signal, async (hub, { object: { name, object } }) => {
      await hub.remove(name, { object, signal });
      return textAnswer(200, `Removed ${name}.`);
    });
  }

  #read(
    query: URLSearchParams,
    signal: AbortSignal,
    read: (array: DeviceArray) => Promise<WebAnswer>,
  ): Promise<WebAnswer> {
    return this.#act(query, signal, async (hub, _, { name, array }) => {
      const options = { wait: false, signal, whenUnreachable: "copy" } as const;
      using shared = await hub.openAny(name, options);
      if (shared instanceof SharedArray) return await read(shared);
      const arrayName = shared.names()[array ?? -1];
      if (arrayName === undefined) return textAnswer(404, `${name} has no such array.`);
      return await read(shared.array(arrayName));
    });
  }

  async #act(query: URLSearchParams, signal: AbortSignal, work: Work): Promise<WebAnswer> {
    const meant = meantBy(query);
    if (meant === undefined) return textAnswer(400, "Name an object and its number.");
    if (this.#waiting >= WAITING_MAX)
      return textAnswer(503, "Other objects are being read. Try again.");
    this.#waiting += 1;
    const before = this.#last;
    const done = this.#afterwards(before, meant, signal, work);
    this.#last = done.then(ignore, ignore);
    return await done;
  }

  async #afterwards(
    before: Promise<void>,
    meant: Meant,
    signal: AbortSignal,
    work: Work,
  ): Promise<WebAnswer> {
    try {
      await before;
      signal.throwIfAborted();
      return await this.#hub.use(signal, async (hub) => {
        const inspection = await hub.inspect(meant.name, { signal });
        if (inspection.object.object !== meant.id)
          return textAnswer(409, `${meant.name} is another object now.`);
        return await work(hub, inspection, meant);
      });
    } catch (error) {
      if (signal.aborted || !(error instanceof CudaIpcError)) throw error;
      return textAnswer(409, `${error.code}: ${error.message}`);
    } finally {
      this.#waiting -= 1;
    }
  }
}

const ignore = () => {};

function silentTerminal(): Terminal {
  const nowhere = new Writable({ write: (_piece, _encoding, done) => done() });
  return new Terminal(nowhere, nowhere);
}

function meantBy(query: URLSearchParams): Meant | undefined {
  const name = query.get("name") ?? "";
  const id = Number(query.get("id") ?? "");
  const array = query.get("array");
  if (name === "" || !Number.isSafeInteger(id) || id < 1) return undefined;
  return { name, id, array: array === null ? undefined : Number(array) };
}

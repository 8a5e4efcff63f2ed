/**
 * The names that completion takes from the running hub. It never starts a hub. Any failure means no
 * names, because an error would be printed into the line that a user is typing.
 */
import { connect } from "../../client/connect.js";
import type { Hub } from "../../client/hub.js";
import type { CommandContext } from "../command-context.js";
import type { ObjectSummary } from "../join-hub.js";
import { arrayWords, contentWords, sizeWords } from "../terminal/words.js";
import type { Offer } from "./offer.js";

type Kind = ObjectSummary["descriptor"]["content"]["kind"];

export class HubNames {
  readonly #context: CommandContext;
  readonly #limitMs: number;

  constructor(context: CommandContext, limitMs: number) {
    this.#context = context;
    this.#limitMs = limitMs;
  }

  /** The objects of these kinds, or of all. */
  objects(...kinds: readonly Kind[]): Promise<readonly Offer[]> {
    return this.#ask(async (hub, signal) => {
      const objects = await hub.list({ signal });
      return objects
        .filter(({ descriptor }) => kinds.length === 0 || kinds.includes(descriptor.content.kind))
        .map(({ name, descriptor }) => ({
          value: name,
          text: `${contentWords(descriptor)}, ${sizeWords(descriptor.byteLength)}`,
        }));
    });
  }

  /** The arrays of a bundle in a memory file. To open one on a GPU would take too long. */
  arrays(bundle: string): Promise<readonly Offer[]> {
    return this.#ask(async (hub, signal) => {
      const { object } = await hub.inspect(bundle, { signal });
      const { content, mechanism } = object.descriptor;
      if (content.kind !== "bundle" || mechanism !== "memfd") return [];
      using opened = await hub.openBundle(bundle, { wait: false, signal });
      return [...opened].map(([name, array]) => ({ value: name, text: arrayWords(array) }));
    });
  }

  async #ask(
    question: (hub: Hub, signal: AbortSignal) => Promise<readonly Offer[]>,
  ): Promise<readonly Offer[]> {
    const signal = AbortSignal.any([this.#context.signal, AbortSignal.timeout(this.#limitMs)]);
    let joined: Hub | undefined;
    try {
      const program = "cuda-ipc complete";
      joined = await connect({ start: false, reconnect: false, program, signal });
      const offers = await question(joined, signal);
      await joined.close();
      return offers;
    } catch {
      // WHY not close(): it would wait for a silent hub. The process ends without it.
      joined?.unref();
      return [];
    }
  }
}

/** The channels of other machines that this bridge carries, one for each name. */
import type { Deadline } from "../../base/deadline.js";
import type { CudaIpcError } from "../../base/errors.js";
import type { ChannelContent } from "../../wire/channel-content.js";
import type { NameRecord } from "../../wire/machine-records.js";
import type { FetchParts } from "../transfer/fetch.js";
import { CarriedChannel } from "./carried-channel.js";

export class ChannelTable {
  readonly #parts: FetchParts;
  readonly #log: (line: string) => void;
  readonly #carried = new Map<string, CarriedChannel>();

  constructor(parts: FetchParts, log: (line: string) => void) {
    this.#parts = parts;
    this.#log = log;
  }

  get carried(): readonly CarriedChannel[] {
    return [...this.#carried.values()];
  }

  /** Resolves when this machine's hub has the channel. @throws what made it fail; ABORTED */
  async join(record: NameRecord, content: ChannelContent, deadline: Deadline): Promise<void> {
    const { name, machine } = record;
    let carried = this.#carried.get(name);
    if (carried === undefined) {
      const begun = new CarriedChannel(this.#parts, record, content);
      carried = begun;
      this.#carried.set(name, begun);
      const from = `"${name}" from machine "${machine}"`;
      begun.begun.then(
        () => this.#log(`carried: ${from}`),
        () => {},
      );
      void begun.ended.then((reason) => {
        this.#carried.delete(name);
        this.#log(`no longer carried: ${from}: ${reason}`);
      });
    }
    await deadline.race(carried.begun, () => {});
  }

  close(reason: CudaIpcError): void {
    for (const carried of this.#carried.values()) carried.abort(reason);
  }
}

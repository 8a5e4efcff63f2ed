/** The channels of other machines that this bridge carries. */
import type { Deadline } from "../../base/deadline.js";
import { type CudaIpcError, hasCode } from "../../base/errors.js";
import type { ChannelContent } from "../../wire/channel-content.js";
import type { NameRecord } from "../../wire/machine-records.js";
import type { FetchParts } from "../transfer/fetch.js";
import { CarriedChannel } from "./carried-channel.js";

export class ChannelTable {
  readonly #parts: FetchParts;
  readonly #log: (line: string) => void;
  /** Several of one name if it was removed on this machine: its readers go on to read. */
  readonly #carried = new Set<CarriedChannel>();
  /** The latest of each name. */
  readonly #byName = new Map<string, CarriedChannel>();

  constructor(parts: FetchParts, log: (line: string) => void) {
    this.#parts = parts;
    this.#log = log;
  }

  get carried(): readonly CarriedChannel[] {
    return [...this.#carried];
  }

  /** Resolves when this machine's hub has the channel. @throws what made it fail; ABORTED */
  async join(record: NameRecord, content: ChannelContent, deadline: Deadline): Promise<void> {
    const { name } = record;
    const earlier = this.#byName.get(name);
    const hasLostName = earlier?.isBegun === true && !(await this.#isHere(name, deadline));
    // After a wait another caller may have begun it anew.
    const latest = this.#byName.get(name);
    const carried =
      latest === undefined || (hasLostName && latest === earlier)
        ? this.#begin(record, content)
        : latest;
    await deadline.race(carried.begun, () => {});
  }

  close(reason: CudaIpcError): void {
    for (const carried of this.#carried) carried.abort(reason);
  }

  #begin(record: NameRecord, content: ChannelContent): CarriedChannel {
    const { name, machine } = record;
    const carried = new CarriedChannel(this.#parts, record, content);
    this.#carried.add(carried);
    this.#byName.set(name, carried);
    const from = `"${name}" from machine "${machine}"`;
    carried.begun.then(
      () => this.#log(`carried: ${from}`),
      () => {},
    );
    void carried.ended.then((reason) => {
      this.#carried.delete(carried);
      if (this.#byName.get(name) === carried) this.#byName.delete(name);
      this.#log(`no longer carried: ${from}: ${reason}`);
    });
    return carried;
  }

  async #isHere(name: string, { signal }: Deadline): Promise<boolean> {
    try {
      await this.#parts.hub.inspect(name, { signal });
      return true;
    } catch (error) {
      if (hasCode(error, "NOT_FOUND")) return false;
      throw error;
    }
  }
}

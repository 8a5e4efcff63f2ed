/** Follows memory that grows in another process: what there is is mapped at once, and what comes later where it is asked for. */
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { defaults } from "../base/limits.js";
import { acquireInAsync, releaseAll } from "../base/scope.js";
import type { Device } from "../gpu/device.js";
import type { DeviceBuffer } from "../gpu/device-buffer.js";
import { GrowingBuffer } from "../gpu/growing-memory.js";
import type { Access } from "../os/mapping.js";
import { checkGrowingDescriptor } from "../wire/growing-descriptor.js";
import type { SharedDocumentOf } from "../wire/shared-document.js";
import { fetchGrowth } from "./fetch-fds.js";
import { parseKind } from "./open-shared.js";
import { closeFds } from "./peer-link.js";

export interface FollowOptions extends WaitOptions {
  /** "read" by default. */
  readonly access?: Access | undefined;
  readonly label?: string | undefined;
}

export class FollowedMemory {
  /** Its `buffer` stays where it is while it becomes longer. */
  readonly memory: GrowingBuffer;
  readonly #document: SharedDocumentOf<"growing">;

  private constructor(memory: GrowingBuffer, document: SharedDocumentOf<"growing">) {
    this.memory = memory;
    this.#document = document;
  }

  /**
   * Opens what `share` made of a `GrowingBuffer`.
   * @throws INVALID_DESCRIPTOR, WRONG_KIND, PEER_GONE, STALE_HANDLE, OUT_OF_MEMORY, TIMEOUT, ABORTED
   */
  static async open(device: Device, document: unknown, options: FollowOptions = {}): Promise<FollowedMemory> {
    const { access, label, ...wait } = options;
    const deadline = new Deadline("follow memory that grows", wait, defaults.peerTimeoutMs);
    const parsed = parseKind(document, ["growing"]);
    return acquireInAsync(async (scope) => {
      const descriptor = checkGrowingDescriptor(parsed.descriptor);
      const none = { ...descriptor, growth: { from: 0, byteLengths: [], byteLength: 0 } };
      const memory = scope.own(GrowingBuffer.import(device, [], none, { access, label }), (it) => it.close());
      const followed = new FollowedMemory(memory, parsed);
      await followed.#follow(deadline);
      return followed;
    });
  }

  get buffer(): DeviceBuffer {
    return this.memory.buffer;
  }

  /**
   * Maps what has come since, and returns the bytes of the content now.
   * @throws PEER_GONE where the exporter has ended (what is mapped stays), STALE_HANDLE where it shares it no longer, TIMEOUT, ABORTED
   */
  async follow(options: WaitOptions = {}): Promise<number> {
    await this.#follow(new Deadline(`follow "${this.memory.label}"`, options, defaults.peerTimeoutMs));
    return this.memory.byteLength;
  }

  close(): void {
    this.memory.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  async #follow(deadline: Deadline): Promise<void> {
    const { fds, growth } = await fetchGrowth(this.#document, this.memory.pieceCount, deadline);
    releaseAll([() => this.memory.extend(fds, growth), () => closeFds(fds)]);
  }
}

/** An array that has a name on the hub. */

import type { DType } from "../../array/dtype.js";
import type { ArrayLayout } from "../../array/layout.js";
import type { WaitOptions } from "../../base/deadline.js";
import { checkWait } from "../../base/wait-checks.js";
import { DeviceArray } from "../../gpu/arrays/device-array.js";
import type { DeviceBuffer } from "../../gpu/memory/device-buffer.js";
import type { ReplicaOf } from "../../wire/descriptor.js";
import type { OpenedFrom, Placement } from "./placement.js";
import type { SharedHandle } from "./shared-object.js";

export class SharedArray<D extends DType = DType> extends DeviceArray<D> {
  /** Tells the results of `openAny` and `load` apart. */
  readonly kind = "array";
  /** The device on which the memory is used here, and how. */
  readonly placement: Placement;
  /** The original, if this is a copy from another machine. Its owner says so: see `inspect`. */
  readonly replicaOf: ReplicaOf | undefined;
  readonly #handle: SharedHandle;

  /** Made by `hub.create` and `hub.open`. */
  constructor(
    buffer: DeviceBuffer,
    layout: ArrayLayout & { readonly dtype: D },
    handle: SharedHandle,
    { placement = "own", replicaOf }: OpenedFrom = {},
  ) {
    super(buffer, layout, () => handle.end());
    this.placement = placement;
    this.replicaOf = replicaOf;
    this.#handle = handle;
  }

  get name(): string {
    return this.#handle.name;
  }

  /** The hub's number of this object. A later array of the same name has another. */
  get object(): number {
    return this.#handle.object;
  }

  /**
   * True once the memory has gone with its owner, which only legacy memory does. What you would
   * read then is undefined, so `read` and the other calls throw PEER_GONE.
   */
  get memoryGone(): boolean {
    return this.buffer.memoryGone;
  }

  override expectDType<Wanted extends DType>(dtype: Wanted): SharedArray<Wanted> {
    return super.expectDType(dtype) as SharedArray<Wanted>;
  }

  /**
   * Makes the array visible: from here on `open` finds it, with what was written before.
   * @throws NOT_OWNER for an array that was opened, HUB_GONE
   */
  async publish(options: WaitOptions = {}): Promise<void> {
    checkWait(options);
    await this.#handle.publish(options);
  }
}

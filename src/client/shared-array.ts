/** An array that has a name on the hub: created here, or opened by its name. */

import type { DType } from "../array/dtype.js";
import type { ArrayLayout } from "../array/layout.js";
import type { WaitOptions } from "../base/deadline.js";
import { DeviceArray } from "../gpu/device-array.js";
import type { DeviceBuffer } from "../gpu/device-buffer.js";
import type { Placement } from "./placement.js";
import type { SharedHandle } from "./shared-object.js";

export class SharedArray<D extends DType = DType> extends DeviceArray<D> {
  /** Tells what `openAny` and `load` return apart. */
  readonly kind = "array";
  /** On which device the memory is used here, and how. */
  readonly placement: Placement;
  readonly #handle: SharedHandle;

  /** Made by `hub.create` and `hub.open`. */
  constructor(
    buffer: DeviceBuffer,
    layout: ArrayLayout & { readonly dtype: D },
    handle: SharedHandle,
    placement: Placement = "own",
  ) {
    super(buffer, layout, () => handle.close());
    this.placement = placement;
    this.#handle = handle;
  }

  get name(): string {
    return this.#handle.name;
  }

  /** The hub's number of this object: an array created later under the same name has another. */
  get object(): number {
    return this.#handle.object;
  }

  override expectDType<Wanted extends DType>(dtype: Wanted): SharedArray<Wanted> {
    return super.expectDType(dtype) as SharedArray<Wanted>;
  }

  /**
   * Makes the array visible to others: from here on `open` gets it. What was written before is what they see.
   * @throws NOT_OWNER for an array that was opened, HUB_GONE
   */
  async publish(options: WaitOptions = {}): Promise<void> {
    await this.#handle.publish(options);
  }
}

/** Many named arrays in one allocation, as in a safetensors file: shared, opened and mapped as one. */
import type { WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { DeviceArray } from "../gpu/device-array.js";
import type { DeviceBuffer } from "../gpu/device-buffer.js";
import type { BundleContent } from "./bundle-index.js";
import type { Placement } from "./placement.js";
import type { SharedHandle } from "./shared-object.js";

export class SharedBundle {
  readonly buffer: DeviceBuffer;
  /** Free text by name, as in a safetensors file. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Tells what `openAny` and `load` return apart. */
  readonly kind = "bundle";
  /** On which device the memory is used here, and how. */
  readonly placement: Placement;
  readonly #content: BundleContent;
  readonly #handle: SharedHandle;

  /** Made by `hub.createBundle` and `hub.openBundle`. */
  constructor(buffer: DeviceBuffer, content: BundleContent, handle: SharedHandle, placement: Placement = "own") {
    this.buffer = buffer;
    this.placement = placement;
    this.metadata = content.metadata;
    this.#content = content;
    this.#handle = handle;
  }

  get name(): string {
    return this.#handle.name;
  }

  /** The hub's number of this object: a bundle created later under the same name has another. */
  get object(): number {
    return this.#handle.object;
  }

  /** How many arrays there are. */
  get size(): number {
    return this.#content.layouts.size;
  }

  /** Names of the arrays, in the order of the file. */
  names(): string[] {
    return [...this.#content.layouts.keys()];
  }

  has(arrayName: string): boolean {
    return this.#content.layouts.has(arrayName);
  }

  /**
   * One of the arrays, usable until the bundle is closed.
   * @throws NOT_FOUND
   */
  array(arrayName: string): DeviceArray {
    const layout = this.#content.layouts.get(arrayName);
    if (layout === undefined) {
      throw new CudaIpcError(
        "NOT_FOUND",
        `Cannot take array "${arrayName}" of bundle "${this.name}": it has none of this name`,
      );
    }
    return new DeviceArray(this.buffer, layout);
  }

  *[Symbol.iterator](): IterableIterator<[string, DeviceArray]> {
    for (const arrayName of this.#content.layouts.keys()) yield [arrayName, this.array(arrayName)];
  }

  /** Makes the bundle visible to others. What was written before is what they see. */
  async publish(options: WaitOptions = {}): Promise<void> {
    await this.#handle.publish(options);
  }

  close(): void {
    this.#handle.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

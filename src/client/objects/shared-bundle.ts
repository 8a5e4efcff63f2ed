/** Many named arrays in one allocation: shared, opened and mapped as one. */
import type { WaitOptions } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { checkWait } from "../../base/wait-checks.js";
import { DeviceArray } from "../../gpu/arrays/device-array.js";
import type { DeviceBuffer } from "../../gpu/memory/device-buffer.js";
import type { ReplicaOf } from "../../wire/descriptor.js";
import type { BundleContent } from "./bundle-index.js";
import type { OpenedFrom, Placement } from "./placement.js";
import type { BundleCopies } from "./private-copy.js";
import type { SharedHandle } from "./shared-object.js";

export class SharedBundle {
  readonly buffer: DeviceBuffer;
  /** Free text by key, as in a safetensors file. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Tells the results of `openAny` and `load` apart. */
  readonly kind = "bundle";
  /** The device on which the memory is used here, and how. */
  readonly placement: Placement;
  /** The original, if this is a copy from another machine. Its owner says so: see `inspect`. */
  readonly replicaOf: ReplicaOf | undefined;
  readonly #content: BundleContent;
  readonly #copies: BundleCopies | undefined;
  readonly #handle: SharedHandle;

  /** Made by `hub.createBundle` and `hub.openBundle`. */
  constructor(
    buffer: DeviceBuffer,
    content: BundleContent,
    handle: SharedHandle,
    {
      placement = "own",
      replicaOf,
      copies,
    }: OpenedFrom & { readonly copies?: BundleCopies | undefined } = {},
  ) {
    this.buffer = buffer;
    this.placement = placement;
    this.replicaOf = replicaOf;
    this.metadata = content.metadata;
    this.#content = content;
    this.#copies = copies;
    this.#handle = handle;
  }

  get name(): string {
    return this.#handle.name;
  }

  /** The hub's number of this object. A later bundle of the same name has another. */
  get object(): number {
    return this.#handle.object;
  }

  /** The number of arrays. */
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
   * Returns one of the arrays, usable until the bundle is closed. With the access `copy` on a GPU
   * the first call for an array allocates its copy.
   * @throws NOT_FOUND, OUT_OF_MEMORY
   */
  array(arrayName: string): DeviceArray {
    const layout = this.#content.layouts.get(arrayName);
    if (layout === undefined) {
      throw new CudaIpcError(
        "NOT_FOUND",
        `Cannot take array "${arrayName}" of bundle "${this.name}": it has none of this name`,
      );
    }
    if (this.#copies === undefined) return new DeviceArray(this.buffer, layout);
    const copy = this.#copies.of(layout);
    return new DeviceArray(copy.buffer, copy.layout);
  }

  *[Symbol.iterator](): IterableIterator<[string, DeviceArray]> {
    for (const arrayName of this.#content.layouts.keys()) yield [arrayName, this.array(arrayName)];
  }

  /** Makes the bundle visible: from here on `openBundle` finds it, with what was written before. */
  async publish(options: WaitOptions = {}): Promise<void> {
    checkWait(options);
    await this.#handle.publish(options);
  }

  close(): void {
    this.#handle.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/**
 * What a hub does with a whole array or file in one call: values in, files in, files out.
 */
import type { DType } from "../array/dtype.js";
import type { HostValues } from "../array/host-values.js";
import type { DTypeOf, SelfDescribingValues } from "../array/inferred-dtype.js";
import type { FileFormat } from "../files/file-format.js";
import { checks } from "./call-checks.js";
import type { Loaded, LoadOptions, PutOptions, Saved, SaveOptions } from "./hub-options.js";
import { loadFile } from "./load-file.js";
import type { PublishingHub } from "./publish-new.js";
import { putArray } from "./put-array.js";
import { saveFile } from "./save-file.js";
import type { SharedArray } from "./shared-array.js";

export class HubTransfers {
  readonly #hub: PublishingHub;

  /** Part of `Hub`. */
  constructor(hub: PublishingHub) {
    this.#hub = hub;
  }

  /**
   * Creates an array, writes the values and publishes it, in one call. If a step fails, nothing
   * stays behind.
   * @param values a typed array, whose type tells the dtype; or plain numbers, with `dtype`
   * @throws as `create`; TypeError and RangeError for values that the dtype or the shape cannot
   * have
   * @example
   * using frame = await hub.put("frame", pixels, { shape: [1080, 1920, 3] });
   */
  async put<V extends SelfDescribingValues>(
    name: string,
    values: V,
    options?: PutOptions & { readonly dtype?: undefined },
  ): Promise<SharedArray<DTypeOf<V>>>;
  async put<D extends DType>(
    name: string,
    values: HostValues<D>,
    options: PutOptions<D> & { readonly dtype: D },
  ): Promise<SharedArray<D>>;
  async put(name: string, values: HostValues, options: PutOptions = {}): Promise<SharedArray> {
    checks.put(options);
    return putArray(this.#hub, name, values, options);
  }

  /**
   * Publishes what a file holds: an array of an .npy file or of raw bytes; a bundle of a
   * .safetensors file, of a folder of them with its index (`model.safetensors.index.json`), or of
   * that index. If a step fails, nothing stays behind.
   * @throws as `create`; INVALID_FILE, UNSUPPORTED_DTYPE, PERMISSION_DENIED, LIMIT_EXCEEDED
   * @example
   * using model = await hub.load("model", "model.safetensors", { format: "safetensors" });
   */
  async load<F extends FileFormat = FileFormat>(
    name: string,
    path: string,
    options: LoadOptions<F> = {},
  ): Promise<Loaded<F>> {
    checks.load(options);
    return loadFile(this.#hub, name, path, options);
  }

  /**
   * Writes what has this name to a file, which is there whole or not at all. Its format is that of
   * its name: .npy, .safetensors, or raw bytes.
   * @throws as `open`; FILE_EXISTS, DISK_FULL, PERMISSION_DENIED, UNSUPPORTED_DTYPE; WRONG_KIND if
   * the format cannot hold it
   */
  async save(name: string, path: string, options: SaveOptions = {}): Promise<Saved> {
    checks.save(options);
    return saveFile(this.#hub.objects, name, path, options);
  }
}

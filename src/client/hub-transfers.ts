/** A whole array or file in one call: values in, files in, files out. Also what bridges need. */
import type { DType } from "../array/dtype.js";
import type { DTypeOf, HostValues, SelfDescribingValues } from "../array/host-values.js";
import { Deadline, type WaitOptions } from "../base/deadline.js";
import type { ChannelWriter } from "../channel/channel-writer.js";
import type { FileFormat } from "../files/file-format.js";
import type { Device } from "../gpu/device.js";
import type { ImportedTimeline, Timeline } from "../gpu/order/timeline.js";
import { checks } from "./call-checks.js";
import type { Loaded, LoadOptions, PutOptions, Saved, SaveOptions } from "./hub-options.js";
import { loadFile } from "./objects/load-file.js";
import type { PublishingHub } from "./objects/publish-new.js";
import { putArray } from "./objects/put-array.js";
import { putReplica, type ReplicaPlan } from "./objects/put-replica.js";
import { saveFile } from "./objects/save-file.js";
import type { SharedArray } from "./objects/shared-array.js";
import type { SharedBundle } from "./objects/shared-bundle.js";
import {
  type CarriedChannelPlan,
  createChannel,
  type OfferPlan,
} from "./objects/shared-channel.js";

import {
  type CreateTimelineOptions,
  createTimeline,
  type OpenTimelineOptions,
  openTimeline,
  resumeTimeline,
} from "./objects/shared-timeline.js";

export class HubTransfers {
  readonly #hub: PublishingHub;

  /** Part of `Hub`. */
  constructor(hub: PublishingHub) {
    this.#hub = hub;
  }

  /**
   * Creates an array, writes the values and publishes it. If a step fails, nothing stays behind.
   * @param values a typed array, whose type gives the dtype; or plain numbers, with `dtype`
   * @throws as `create`; TypeError and RangeError for values that do not fit dtype or shape
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
   * Loads and publishes a file: an array of an .npy file or of raw bytes; a bundle of a
   * .safetensors file, or of a folder of them with its index (`model.safetensors.index.json`). If a
   * step fails, nothing stays behind.
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
   * Creates, fills and publishes a copy of another machine's object. If a step fails, nothing stays
   * behind.
   * @internal
   */
  async putReplica(plan: ReplicaPlan): Promise<SharedArray | SharedBundle> {
    return putReplica(this.#hub, plan);
  }

  /**
   * The hub's position. With `since`, an earlier position, waits until something has changed after
   * it that this user may open; the answer is then not the latest position.
   * @internal
   */
  async changed(since: number | undefined, options: WaitOptions): Promise<number> {
    const deadline = new Deadline("wait for changes", options, Number.POSITIVE_INFINITY);
    const fields = since === undefined ? {} : { since, wait: true };
    return (await this.#hub.link.request("changes", fields, deadline)).next;
  }

  /** Creates a channel for the messages of another machine's. @internal */
  async createCarriedChannel(
    name: string,
    device: Device,
    plan: CarriedChannelPlan,
  ): Promise<ChannelWriter> {
    return createChannel(this.#hub.objects, name, device, plan);
  }

  /** Creates a channel for the replies of a service's worker. @internal */
  async createOffer<D extends DType>(
    name: string,
    device: Device,
    plan: OfferPlan<D>,
  ): Promise<ChannelWriter<D>> {
    return createChannel(this.#hub.objects, name, device, plan);
  }

  /**
   * Saves an object to a file, as a whole or not at all. The file's name gives the format: .npy,
   * .safetensors, or raw bytes.
   * @throws as `open`; FILE_EXISTS, DISK_FULL, PERMISSION_DENIED, UNSUPPORTED_DTYPE; WRONG_KIND if
   * the format cannot hold the object
   */
  async save(name: string, path: string, options: SaveOptions = {}): Promise<Saved> {
    checks.save(options);
    return saveFile(this.#hub.objects, name, path, options);
  }

  /**
   * Creates a timeline under a name, which others can open at once. Only this process signals it.
   * It ends for everybody when you close it, or when this process ends in any way. With
   * `whenOwnerGone: "wait"` its next owner continues it instead.
   * @throws NAME_TAKEN, INVALID_NAME
   */
  async createTimeline(name: string, options: CreateTimelineOptions = {}): Promise<Timeline> {
    checks.createTimeline(options);
    const { objects } = this.#hub;
    return createTimeline(objects, name, objects.device(options.device), options);
  }

  /**
   * Opens a timeline by name, to wait for it. Waits until there is one.
   * @throws TIMEOUT, NOT_FOUND if `wait` is false, WRONG_KIND for an array or a bundle
   */
  async openTimeline(name: string, options: OpenTimelineOptions = {}): Promise<ImportedTimeline> {
    checks.openTimeline(options);
    const { objects } = this.#hub;
    return openTimeline(objects, name, objects.device(options.device), options);
  }

  /**
   * Becomes the next owner of a timeline whose owner is gone (`whenOwnerGone: "wait"`). It
   * continues at its value, and processes that wait for it go on waiting.
   * @throws IN_USE if it has an owner, READ_ONLY if its `whenOwnerGone` is "end"; otherwise as
   * `openTimeline`
   */
  async resumeTimeline(name: string, options: OpenTimelineOptions = {}): Promise<Timeline> {
    checks.resumeTimeline(options);
    const { objects } = this.#hub;
    return resumeTimeline(objects, name, objects.device(options.device), options);
  }
}

/** What only the memory of an object tells: its values, and on which device it was opened. */
import { CudaIpcError } from "../../base/errors.js";
import type { Hub } from "../../client/hub.js";
import type { Inspection } from "../../client/hub-options.js";
import { SharedArray } from "../../client/objects/shared-array.js";
import type { SharedBundle } from "../../client/objects/shared-bundle.js";
import type { DeviceArray } from "../../gpu/arrays/device-array.js";
import type { CommandContext } from "../command-context.js";
import { withoutLoaderWords } from "../terminal/words.js";
import { READ_ALL, readValues } from "./array-values.js";
import type { ArrayFacts, OpenedFacts } from "./inspection-rows.js";
import { readSampled } from "./sampled-values.js";

/** Few enough for a screen of 24 lines. */
const BINS_MAX = 16;

export interface MemoryOptions {
  /** One array of a bundle. */
  readonly array?: string;
  /** The device that reads it, if not the one it is on. */
  readonly device?: string;
  /** Leaves out all that would read the values of an array. */
  readonly withoutValues?: boolean;
  /** Also counts how often which values occur. */
  readonly histogram?: boolean;
  /** Reads all values, however many there are. */
  readonly allValues?: boolean;
}

/** Facts that need the memory itself. If this process cannot map it, returns the reason. */
export async function openedFacts(
  hub: Hub,
  { object }: Inspection,
  options: MemoryOptions,
  context: Pick<CommandContext, "terminal" | "signal">,
): Promise<OpenedFacts> {
  const { name } = object;
  if (!object.published) return { unreadable: "it is not published yet" };
  const { signal } = context;
  if (object.descriptor.content.kind === "channel") {
    using observer = await hub.observeChannel(name, { wait: false, signal });
    return { channel: observer.statistics() };
  }
  if (object.descriptor.content.kind === "timeline") {
    using timeline = await hub.openTimeline(name, { wait: false, signal });
    const value = String(timeline.read({ evenIfEnded: true }));
    return { timeline: { value, ended: timeline.ended } };
  }
  let shared: SharedArray | SharedBundle;
  try {
    shared = await hub.openAny(name, {
      wait: false,
      signal,
      device: options.device,
      whenUnreachable: "copy",
    });
  } catch (error) {
    if (context.signal.aborted || !(error instanceof CudaIpcError)) throw error;
    return { unreadable: `${error.code}: ${withoutLoaderWords(error.message)}` };
  }
  using _ = shared;
  const { placement, buffer } = shared;
  const { device } = buffer;
  const facts = {
    device: { name: device.name, model: device.facts.name, reason: device.reason, placement },
  };
  if (shared instanceof SharedArray) {
    if (options.array === undefined)
      return { ...facts, ...(await valuesOf(shared, options, context)) };
    throw new CudaIpcError(
      "WRONG_KIND",
      `Cannot inspect array "${options.array}" of "${name}": it is an array, not a bundle`,
    );
  }
  if (options.array === undefined) return { ...facts, ...bundleFacts(shared) };
  const array = shared.array(options.array);
  const values = await valuesOf(array, options, context);
  return { ...facts, array: arrayFacts(options.array, array), ...values };
}

async function valuesOf(
  array: DeviceArray,
  { withoutValues, histogram, allValues }: MemoryOptions,
  context: Pick<CommandContext, "terminal" | "signal">,
): Promise<Pick<OpenedFacts, "values" | "histogram">> {
  if (withoutValues) return {};
  const values = await readValues(array, context, allValues ? READ_ALL : {});
  if (!histogram) return { values };
  const { signal } = context;
  return { values, histogram: (await readSampled(array, BINS_MAX, { signal })).histogram };
}

function bundleFacts(bundle: SharedBundle): Pick<OpenedFacts, "metadata" | "arrays"> {
  return {
    metadata: bundle.metadata,
    arrays: [...bundle].map(([name, array]) => arrayFacts(name, array)),
  };
}

function arrayFacts(
  name: string,
  { dtype, shape, strides, byteLength, layout }: DeviceArray,
): ArrayFacts {
  return { name, dtype, shape, strides, byteOffset: layout.byteOffset, byteLength };
}

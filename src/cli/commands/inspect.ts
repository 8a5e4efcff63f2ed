/** `cuda-ipc inspect NAME`: prints everything about one shared object, including its values. */
import type { Command } from "commander";
import { CudaIpcError } from "../../base/errors.js";
import type { Hub } from "../../client/hub.js";
import type { Inspection } from "../../client/hub-options.js";
import { SharedArray } from "../../client/objects/shared-array.js";
import type { SharedBundle } from "../../client/objects/shared-bundle.js";
import type { DeviceArray } from "../../gpu/arrays/device-array.js";
import { removalOf } from "../../watch/removal.js";
import type { CommandContext } from "../command-context.js";
import { type ArrayValues, readValues } from "../inspect/array-values.js";
import { type ArrayFacts, type OpenedFacts, printInspection } from "../inspect/inspection-text.js";
import { joinHubFor } from "../join-hub.js";
import { withoutLoaderWords } from "../terminal/words.js";

interface InspectOptions {
  readonly json?: boolean;
  readonly array?: string;
  readonly all?: boolean;
  readonly device?: string;
}

export function addInspect(program: Command, context: CommandContext): void {
  program
    .command("inspect")
    .description(
      "print everything about a shared object: layout, device, who holds it since when, " +
        "what its removal would free, and statistics of its values",
    )
    .argument("<name>", "the name to inspect")
    .option("-a, --array <array>", "print one array of a bundle, with statistics of its values")
    .option("-d, --device <device>", "read it from this GPU instead of the one it is on")
    .option("--all", "print all arrays of a bundle, not just the first 20")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      "\nExamples:\n  $ cuda-ipc inspect weights\n" +
        "  $ cuda-ipc inspect weights --array model.embedding --json",
    )
    .action((name: string, options: InspectOptions) => inspect(name, options, context));
}

async function inspect(
  name: string,
  options: InspectOptions,
  context: CommandContext,
): Promise<void> {
  await using hub = await joinHubFor(context, "inspect", name);
  const inspection = await hub.inspect(name, { signal: context.signal });
  const opened = await look(hub, name, inspection, options, context);
  const removal = removalOf(inspection.object);
  if (options.json) context.terminal.json({ ...inspection, removal, ...opened });
  else printInspection(context.terminal, inspection, opened, options.all ?? false);
}

/** Facts that need the memory itself. If this process cannot map it, returns the reason. */
async function look(
  hub: Hub,
  name: string,
  { object }: Inspection,
  options: InspectOptions,
  context: CommandContext,
): Promise<OpenedFacts> {
  if (!object.published) return { unreadable: "it is not published yet" };
  const { signal } = context;
  if (object.descriptor.content.kind === "channel") {
    using observer = await hub.observeChannel(name, { wait: false, signal });
    return { channel: observer.statistics() };
  }
  if (object.descriptor.content.kind === "timeline") {
    using timeline = await hub.openTimeline(name, { wait: false, signal });
    return { timeline: { value: String(timeline.value), ended: timeline.ended } };
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
    if (options.array === undefined) return { ...facts, values: await readValues(shared, context) };
    throw new CudaIpcError(
      "WRONG_KIND",
      `Cannot inspect array "${options.array}" of "${name}": it is an array, not a bundle`,
    );
  }
  if (options.array === undefined) return { ...facts, ...bundleFacts(shared) };
  const array = shared.array(options.array);
  const values: ArrayValues = await readValues(array, context);
  return { ...facts, array: arrayFacts(options.array, array), values };
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

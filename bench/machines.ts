/**
 * From machine to machine through two bridges, over UCX by tcp on this host: arrays, small
 * messages, and what the bridges cost meanwhile and afterwards.
 */
import { Device } from "../src/index.js";
import { skipWithoutEngines } from "../test/support/machines/engines.js";
import { type CopyOptions, type CopySides, gpuCopies, hostCopies } from "./machines/arrays.js";
import { type MessageOptions, messages } from "./machines/messages.js";
import { Site } from "./machines/site.js";
import { type SmallArrayOptions, smallArrays } from "./machines/small-arrays.js";
import type { Row } from "./measure.js";

export type MachinesOptions = CopyOptions & MessageOptions & SmallArrayOptions;

const FULL_SCALE: MachinesOptions = {
  byteLength: 1024 ** 3,
  rounds: 3,
  roundTrips: 2000,
  idleMs: 10_000,
  names: 20,
};

/** @param device where the copies of the last rows are made, if it is no host device */
export async function machines(
  device: string,
  options: Partial<MachinesOptions> = {},
): Promise<Row[]> {
  if (skipWithoutEngines !== false) {
    const what = "an array from machine to machine";
    return [{ what, value: Number.NaN, unit: "GB/s", missing: skipWithoutEngines }];
  }
  const scale = { ...FULL_SCALE, ...options };
  await using site = await Site.start();
  const places = [site.place(), site.place()] as const;
  const announce = ["--announce", "*"];
  const from = await site.machine("one", places[0], announce);
  const to = await site.machine("other", places[1], announce);
  const sides = {
    from,
    to,
    hubOfFrom: await site.connect(from),
    hubOfTo: await site.connect(to),
  };
  const copies = await hostCopies(sides, places, scale, site.link);
  return [
    ...copies,
    ...(await smallArrays(sides, scale)),
    ...(await messages(sides, places, scale)),
    ...(device === "host" ? [] : await onDevice(site, sides, device, copies, scale)),
  ];
}

/** Copies to a third machine, whose bridge makes them in memory of its own GPU. */
async function onDevice(
  site: Site,
  { from }: CopySides,
  device: string,
  copies: readonly Row[],
  options: CopyOptions,
): Promise<Row[]> {
  const host = copies.find(({ what }) => what.startsWith("an array"));
  if (host === undefined) return [];
  const target = nextDevice(device);
  const to = await site.machine("gpu", site.place(), ["--device", target]);
  const hubOfFrom = await site.connect(from, device);
  const hubOfTo = await site.connect(to, target);
  return gpuCopies({ from, to, hubOfFrom, hubOfTo }, { device, target, host }, options);
}

/** The next GPU, so that each machine has one of its own; the same one if there is no other. */
function nextDevice(device: string): string {
  using first = Device.open(device);
  return `cuda:${(first.ordinal + 1) % first.deviceCount}`;
}

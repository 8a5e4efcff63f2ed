/** How `top` words holders, rates and devices. */
import type { ChannelRates } from "../../watch/rates.js";
import type { WatchedChannelState, WatchedObject } from "../../watch/snapshot.js";
import { serviceUseOf } from "../../watch/watched-services.js";
import { rateWords } from "../channel/traffic.js";
import { sizeWords } from "../terminal/words.js";

export type Holder = WatchedObject["holders"][number];
export type ReadableChannel = Extract<WatchedChannelState, { readonly unreadable?: undefined }>;

/** `trainer.py 4242`: the program, and its process if the hub can see it. */
export function processWords({
  program,
  pid,
}: {
  readonly program: string;
  readonly pid: number;
}): string {
  return pid === 0 ? program : `${program} ${pid}`;
}

/** The name of a channel, or `service detect, link 3: requests` if a service uses it. */
export function channelWords(name: string): string {
  const use = serviceUseOf(name);
  return use === undefined ? name : `service ${use.service}, link ${use.link}: ${use.carries}`;
}

/** Each process once, the oldest holder first: `a.mjs 41, b.py 42, 3 more`; `nobody`. */
export function holdersWords({
  holders,
  leases,
}: Pick<WatchedObject, "holders" | "leases">): string {
  if (leases === 0) return "nobody";
  const names = [...new Set(holders.map(processWords))];
  const more = leases - holders.length;
  return [...names, ...(more > 0 ? [`${more} more`] : [])].join(", ");
}

/** `12 messages/s` without its unit; `-` before it is known. */
export function perSecondWords(rate: number | undefined): string {
  return rate === undefined ? "-" : rateWords(rate, 1000);
}

export function bandwidthWords(rates: ChannelRates | undefined): string {
  return rates?.bytes === undefined ? "-" : `${sizeWords(Math.round(rates.bytes))}/s`;
}

/** `host`, or the first characters of the GPU's UUID, as in `cuda-ipc ls`. */
export function shortDevice(device: string): string {
  return device.slice(0, 12);
}

/** The holder with a seat of a channel. */
export function readerAt(object: WatchedObject | undefined, place: number): Holder | undefined {
  return object?.holders.find((holder) => holder.place === place);
}

export function writerOf(object: WatchedObject | undefined): Holder | undefined {
  return object?.holders.find(({ role, access }) => role === "writer" || access === "owner");
}

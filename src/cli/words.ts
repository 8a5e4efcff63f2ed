/** Facts in words for people, the same in all commands. */

import { formatBytes } from "../base/bytes.js";
import { uuidOf } from "../base/device-reference.js";
import { userName } from "../client/hub-trust.js";
import type { Device } from "../gpu/device.js";
import type { Descriptor, ObjectSummary } from "./hub-facts.js";

/** `float32[1080, 1920, 3]` */
export function arrayWords(array: { readonly dtype: string; readonly shape: readonly number[] }): string {
  return `${array.dtype}[${array.shape.join(", ")}]`;
}

export function contentWords({ content }: Descriptor): string {
  if (content.kind === "array") return arrayWords(content.array);
  if (content.kind === "timeline") return "timeline";
  if (content.kind === "channel") return `channel of ${content.slots} x ${arrayWords(content)}`;
  return `bundle of ${content.arrayCount}`;
}

/** `alice`, or `user 1000` where this machine has no name for it. */
export function userWords(uid: number): string {
  return userName(uid) ?? `user ${uid}`;
}

/** Whom an object is shared with beside its user: `group, read`; `private` for nobody. */
export function sharingWords({ with: whom, access }: ObjectSummary["sharing"]): string {
  return whom === "private" ? whom : `${whom}, ${access}`;
}

/** `host`, or the beginning of the GPU's UUID, which is the same in every process. */
export function deviceWords({ device }: Descriptor): string {
  return uuidOf(device).slice(0, 12);
}

/** Which device was taken and why: `host (auto: no GPU)`. */
export function chosenDeviceWords(device: Device): string {
  // WHY cut: after "no GPU" comes every library name that was tried, which `doctor` tells better.
  return `${device.name} (${device.reason.replace(/ \(.*$/s, "")})`;
}

export function durationWords(ms: number): string {
  if (ms < 1) return `${Math.max(1, Math.round(ms * 1000))} us`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  return `${Number((ms / 1000).toFixed(1))} s`;
}

/** When a hub ends that nobody uses: `ends after 5 s idle`. */
export function idleWords(idleMs: number): string {
  return idleMs === 0 ? "ends as soon as it is idle" : `ends after ${durationWords(idleMs)} idle`;
}

/** How long ago, in the largest unit that fits: `42 s`, `7 min`, `3 h`, `12 d`. */
export function ageWords(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 2 * 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

export function sizeWords(byteLength: number): string {
  return byteLength === 1 ? "1 byte" : formatBytes(byteLength);
}

/** The beginning of a text that is longer than this many characters. */
export function shortened(text: string, charactersMax: number): string {
  return text.length <= charactersMax ? text : `${text.slice(0, charactersMax - 3)}...`;
}

export function plural(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

/** `4 MiB in 12 ms, 0.3 GiB/s`; the speed only where it says something. */
export function transferWords(byteLength: number, ms: number): string {
  const words = `${sizeWords(byteLength)} in ${durationWords(ms)}`;
  if (byteLength < 2 ** 20 || ms <= 0) return words;
  return `${words}, ${(byteLength / 2 ** 30 / (ms / 1000)).toFixed(1)} GiB/s`;
}

/** WHY: the loader says the same long sentence for each name of a library that was tried. */
export function withoutLoaderWords(message: string): string {
  return message.replace(/ \([^()]*No such file or directory\)/g, "");
}

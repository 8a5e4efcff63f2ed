/** How all commands word devices, sizes, times and counts. */
import { formatBytes } from "../../base/bytes.js";
import { uuidOf } from "../../base/device-reference.js";
import { userName } from "../../client/connection/hub-trust.js";
import type { Device } from "../../gpu/device.js";
import type { Descriptor, HeldObject, ObjectSummary } from "../join-hub.js";

/** `float32[1080, 1920, 3]` */
export function arrayWords(array: {
  readonly dtype: string;
  readonly shape: readonly number[];
}): string {
  return `${array.dtype}[${array.shape.join(", ")}]`;
}

export function contentWords({ content }: Descriptor): string {
  if (content.kind === "array") return arrayWords(content.array);
  if (content.kind === "timeline") return "timeline";
  if (content.kind === "channel") return `channel of ${content.slots} x ${arrayWords(content)}`;
  return `bundle of ${content.arrayCount}`;
}

/** `frame`, or `(frame)` if the object has lost that name, or has yet to take it over. */
export function nameWords({ name, nameless }: Pick<HeldObject, "name" | "nameless">): string {
  return nameless ? `(${name})` : name;
}

/** Whether it is held or pinned. `no name` if only its holders keep it, whatever it was. */
export function lifetimeWords({
  lifetime,
  published,
  nameless,
}: Pick<HeldObject, "lifetime" | "published" | "nameless">): string {
  if (!published) return `${lifetime}, unpublished`;
  return nameless ? "no name" : lifetime;
}

/** `alice`, or `user 1000` if the uid has no name on this machine. */
export function userWords(uid: number): string {
  return userName(uid) ?? `user ${uid}`;
}

/** Who else may open an object: `group, read, machines`, or `private` if nobody may. */
export function sharingWords({ with: users, access, machines }: ObjectSummary["sharing"]): string {
  const words = users === "private" ? users : `${users}, ${access}`;
  return machines === true ? `${words}, machines` : words;
}

/** `host`, or the start of the GPU's UUID. Ordinals differ between processes, UUIDs do not. */
export function deviceWords({ device }: Descriptor): string {
  return uuidOf(device).slice(0, 12);
}

/** The device and why it was chosen: `host (auto: no GPU)`. */
export function chosenDeviceWords(device: Device): string {
  // The reason goes on with every library name that was tried. `doctor` prints those.
  return `${device.name} (${device.reason.replace(/ \(.*$/s, "")})`;
}

export function durationWords(ms: number): string {
  if (ms < 1) return `${Math.max(1, Math.round(ms * 1000))} us`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  return `${Number((ms / 1000).toFixed(1))} s`;
}

/** When an idle hub ends: `ends after 5 s idle`. */
export function idleWords(idleMs: number): string {
  return idleMs === 0 ? "ends as soon as it is idle" : `ends after ${durationWords(idleMs)} idle`;
}

/** An age in its largest unit: `42 s`, `7 min`, `3 h`, `12 d`. */
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

/** Cuts a text to this many characters, the last three being dots. */
export function shortened(text: string, charactersMax: number): string {
  return text.length <= charactersMax ? text : `${text.slice(0, charactersMax - 3)}...`;
}

export function plural(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

/** `4 MiB in 12 ms, 0.3 GiB/s`. Small transfers have no speed. */
export function transferWords(byteLength: number, ms: number): string {
  const words = `${sizeWords(byteLength)} in ${durationWords(ms)}`;
  if (byteLength < 2 ** 20 || ms <= 0) return words;
  const gibPerSecond = byteLength / 2 ** 30 / (ms / 1000);
  if (gibPerSecond < 0.05) return `${words}, ${(gibPerSecond * 1024).toFixed(1)} MiB/s`;
  return `${words}, ${gibPerSecond.toFixed(1)} GiB/s`;
}

/** How far a copy from another machine is: `43 % of 2 GiB at 512 MiB/s`. */
export function copyWords({
  doneBytes,
  totalBytes,
  bytesPerSecond,
}: {
  readonly doneBytes: number;
  readonly totalBytes: number;
  readonly bytesPerSecond: number;
}): string {
  const percent = totalBytes === 0 ? 100 : Math.floor((doneBytes / totalBytes) * 100);
  return `${percent} % of ${sizeWords(totalBytes)} at ${sizeWords(bytesPerSecond)}/s`;
}

/** Removes the sentence that the loader repeats for each library name it has tried. */
export function withoutLoaderWords(message: string): string {
  return message.replace(/ \([^()]*No such file or directory\)/g, "");
}

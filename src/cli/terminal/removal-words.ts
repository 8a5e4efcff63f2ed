/** How commands word what the removal of an object would free. */
import type { Removal } from "../../watch/removal.js";
import { plural, sizeWords } from "./words.js";

const keptWords: Readonly<Record<NonNullable<Removal["keptBy"]>, string>> = {
  pool: "its memory is part of a pool, which is freed as a whole",
  timelines: "other timelines share its memory",
  holders: "the hub does not have its memory, only its holders do",
};

/** `frees 16 MiB once its 2 leases end` */
export function removalWords({ bytes, leases, keptBy }: Removal): string {
  if (keptBy !== undefined) return `frees nothing: ${keptWords[keptBy]}`;
  if (leases === 0) return `frees ${sizeWords(bytes)} at once`;
  const end = leases === 1 ? "its lease ends" : `its ${plural(leases, "lease")} end`;
  return `frees ${sizeWords(bytes)} once ${end}`;
}

/** Records of this machine that a bridge of another version wrote, and did not take back. */
import type { Directory } from "./directory.js";

/** @param wanted keys that this bridge writes anew */
export function leftBehind(
  directory: Pick<Directory, "others">,
  machine: string,
  prefix: "name." | "service.",
  wanted: Iterable<string>,
): readonly { readonly key: string; readonly revision: number }[] {
  const kept = new Set(wanted);
  return [...directory.others]
    .filter(([key, { record }]) => record.machine === machine && key.startsWith(prefix))
    .filter(([key]) => !kept.has(key))
    .map(([key, { revision }]) => ({ key, revision }));
}

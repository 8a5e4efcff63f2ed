/** Opens an array, a bundle or either, and refuses objects of another kind. */
import type { DType } from "../../array/dtype.js";
import { CudaIpcError } from "../../base/errors.js";
import type { OpenArrayOptions, OpenOptions } from "../hub-options.js";
import type { HubObjects } from "./hub-objects.js";
import { SharedArray } from "./shared-array.js";
import { SharedBundle } from "./shared-bundle.js";

export async function openAny(
  objects: HubObjects,
  name: string,
  options: OpenOptions,
): Promise<SharedArray | SharedBundle> {
  const open = (chosen: OpenOptions) =>
    objects.open(name, chosen, (opened) => objects.importArrays(opened, chosen));
  if (options.from !== "any") return open(options);
  // WHY here: whoever uses one machine loads none of it.
  const { openAnywhere } = await import("./open-anywhere.js");
  return openAnywhere(objects.link.socketPath, name, options, open);
}

export async function openArray<D extends DType>(
  objects: HubObjects,
  name: string,
  options: OpenArrayOptions<D>,
): Promise<SharedArray<D>> {
  const { dtype } = options;
  const opened = await openAny(objects, name, options);
  if (opened instanceof SharedArray && (dtype ?? opened.dtype) === opened.dtype)
    return opened as SharedArray<D>;
  opened.close();
  if (opened instanceof SharedArray)
    throw wrongDType(name, dtype ?? opened.dtype, `an array of ${opened.dtype}`);
  throw new CudaIpcError(
    "WRONG_KIND",
    `Cannot open "${name}" as an array: it is a bundle; use openBundle`,
  );
}

export async function openBundle(
  objects: HubObjects,
  name: string,
  options: OpenOptions,
): Promise<SharedBundle> {
  const opened = await openAny(objects, name, options);
  if (opened instanceof SharedBundle) return opened;
  opened.close();
  throw new CudaIpcError(
    "WRONG_KIND",
    `Cannot open "${name}" as a bundle: it is an array of ${opened.dtype}`,
  );
}

/** @param found `an array of uint8` */
export function wrongDType(name: string, wanted: DType, found: string): CudaIpcError {
  return new CudaIpcError("WRONG_KIND", `Cannot open "${name}" as ${wanted}: it is ${found}`);
}

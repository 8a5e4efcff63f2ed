/** A new bundle under a name: its memory, and its index in a file of its own. */
import { type ArrayLayout, checkLayout } from "../array/layout.js";
import { acquireInAsync } from "../base/scope.js";
import type { DeviceBuffer } from "../gpu/device-buffer.js";
import { type BundleContent, writeBundleIndex } from "./bundle-index.js";
import type { HubObjects } from "./hub-objects.js";
import type { CreateBundleOptions } from "./hub-options.js";
import { SharedBundle } from "./shared-bundle.js";

/** As `Hub.createBundleOf`. */
export async function createBundle(
  objects: HubObjects,
  name: string,
  layouts: ReadonlyMap<string, ArrayLayout>,
  memory: number | DeviceBuffer,
  options: CreateBundleOptions,
): Promise<SharedBundle> {
  const byteLength = typeof memory === "number" ? memory : memory.byteLength;
  for (const layout of layouts.values()) checkLayout(layout, byteLength);
  const bundle: BundleContent = { layouts, metadata: options.metadata ?? {} };
  const index = writeBundleIndex(bundle);
  return acquireInAsync(async (scope) => {
    try {
      const { size: arrayCount } = layouts;
      const content = { kind: "bundle", arrayCount, indexByteLength: index.byteLength } as const;
      const { buffer, handle } = await objects.create(name, memory, options, content, index.fd);
      return scope.own(new SharedBundle(buffer, bundle, handle), (it) => it.close());
    } finally {
      index.fd.close();
    }
  });
}

/** Creates arrays and bundles under a name, in new memory or in the caller's. */
import type { DType } from "../../array/dtype.js";
import { type ArrayLayout, checkLayout } from "../../array/layout.js";
import { acquireInAsync } from "../../base/scope.js";
import type { DeviceBuffer } from "../../gpu/memory/device-buffer.js";
import { operations } from "../client-diagnostics.js";
import type { CreateBundleOptions, CreateOptions } from "../hub-options.js";
import { type BundleContent, writeBundleIndex } from "./bundle-index.js";
import type { HubObjects } from "./hub-objects.js";
import { SharedArray } from "./shared-array.js";
import { SharedBundle } from "./shared-bundle.js";

/** @param memory bytes to allocate, or a buffer, which the array owns once this resolves */
export async function createArray<D extends DType>(
  objects: HubObjects,
  name: string,
  layout: ArrayLayout & { readonly dtype: D },
  memory: number | DeviceBuffer,
  options: CreateOptions,
): Promise<SharedArray<D>> {
  const { dtype, shape, strides, byteOffset } = layout;
  const byteLength = typeof memory === "number" ? memory : memory.byteLength;
  checkLayout(layout, byteLength);
  const array = { dtype, shape: [...shape], strides: [...strides], byteOffset };
  const content = { kind: "array", array } as const;
  return operations.create.run({ name, kind: "array", byteLength }, async () => {
    const { buffer, handle } = await objects.create(name, memory, options, content, undefined);
    return new SharedArray(buffer, layout, handle);
  });
}

/** @param memory as `createArray` takes it */
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
      const content = {
        kind: "bundle",
        arrayCount: layouts.size,
        indexByteLength: index.byteLength,
      } as const;
      const shared = operations.create.run({ name, kind: "bundle", byteLength }, async () => {
        const { buffer, handle } = await objects.create(name, memory, options, content, index.fd);
        return new SharedBundle(buffer, bundle, handle);
      });
      return scope.own(await shared, (it) => it.close());
    } finally {
      index.fd.close();
    }
  });
}

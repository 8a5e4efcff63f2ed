/** Creates arrays and bundles under a name, in new memory. */
import type { DType } from "../../array/dtype.js";
import { type ArrayLayout, checkLayout } from "../../array/layout.js";
import { acquireInAsync } from "../../base/scope.js";
import { operations } from "../client-diagnostics.js";
import type { CreateBundleOptions } from "../hub-options.js";
import { type BundleContent, writeBundleIndex } from "./bundle-index.js";
import type { HubObjects, NewObjectOptions } from "./hub-objects.js";
import { SharedArray } from "./shared-array.js";
import { SharedBundle } from "./shared-bundle.js";

export async function createArray<D extends DType>(
  objects: HubObjects,
  name: string,
  layout: ArrayLayout & { readonly dtype: D },
  byteLength: number,
  options: NewObjectOptions,
): Promise<SharedArray<D>> {
  const { dtype, shape, strides, byteOffset } = layout;
  checkLayout(layout, byteLength);
  const array = { dtype, shape: [...shape], strides: [...strides], byteOffset };
  const content = { kind: "array", array } as const;
  return operations.create.run({ name, kind: "array", byteLength }, async () => {
    const { buffer, handle } = await objects.create(name, byteLength, options, content, undefined);
    return new SharedArray(buffer, layout, handle);
  });
}

export async function createBundle(
  objects: HubObjects,
  name: string,
  layouts: ReadonlyMap<string, ArrayLayout>,
  byteLength: number,
  options: NewObjectOptions & Pick<CreateBundleOptions, "metadata">,
): Promise<SharedBundle> {
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
        const { buffer, handle } = await objects.create(
          name,
          byteLength,
          options,
          content,
          index.fd,
        );
        return new SharedBundle(buffer, bundle, handle);
      });
      return scope.own(await shared, (it) => it.close());
    } finally {
      index.fd.close();
    }
  });
}

/** Publishes a copy of another machine's object, with the layout of the original. */
import type { ArrayLayout } from "../../array/layout.js";
import { Deadline } from "../../base/deadline.js";
import type { DeviceBuffer } from "../../gpu/memory/device-buffer.js";
import type { ReplicaOf } from "../../wire/descriptor.js";
import type { Sharing } from "../../wire/messages.js";
import type { BundleContent } from "./bundle-index.js";
import { createArray, createBundle } from "./create-arrays.js";
import { type PublishingHub, publishNew } from "./publish-new.js";
import type { SharedArray } from "./shared-array.js";
import type { SharedBundle } from "./shared-bundle.js";

export type ReplicaContent =
  | { readonly kind: "array"; readonly layout: ArrayLayout }
  | ({ readonly kind: "bundle" } & BundleContent);

export interface ReplicaPlan {
  readonly name: string;
  readonly byteLength: number;
  readonly content: ReplicaContent;
  readonly replicaOf: ReplicaOf;
  /** With whom the original is shared. */
  readonly sharedWith: Sharing["with"];
  readonly device: string;
  /**
   * The number here of an earlier copy, which is replaced once the new one is filled. WHY by its
   * number: meanwhile a process of this machine may have taken the name for an object of its own.
   */
  readonly replacedObject: number | undefined;
  readonly signal: AbortSignal;
  fill(buffer: DeviceBuffer): Promise<void>;
}

/** @throws NAME_TAKEN, OUT_OF_MEMORY, LIMIT_EXCEEDED; what `fill` throws */
export async function putReplica(
  hub: PublishingHub,
  plan: ReplicaPlan,
): Promise<SharedArray | SharedBundle> {
  const { name, byteLength, content, replicaOf, sharedWith, device, signal, fill } = plan;
  const deadline = new Deadline(`copy "${name}"`, { signal }, Number.POSITIVE_INFINITY);
  return publishNew<SharedArray | SharedBundle>(
    hub,
    {
      byteLength,
      create: (byteLength, given) => {
        const options = { ...given, replicaOf };
        if (content.kind === "array")
          return createArray(hub.objects, name, content.layout, byteLength, options);
        const { layouts, metadata } = content;
        return createBundle(hub.objects, name, layouts, byteLength, { ...options, metadata });
      },
      fill,
    },
    {
      device,
      replace: plan.replacedObject,
      lifetime: "pinned",
      sharing: { with: sharedWith, access: "read" },
    },
    deadline,
  );
}

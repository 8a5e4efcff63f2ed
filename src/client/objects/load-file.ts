/** Loads a file, or a folder of files, as a published array or bundle. */

import { Deadline } from "../../base/deadline.js";
import { aString } from "../../base/option-checks.js";
import type { FileFormat } from "../../files/file-format.js";
import { LoadSource } from "../../files/load-source.js";
import { checkName } from "../../wire/names.js";
import type { Loaded, LoadOptions } from "../hub-options.js";
import { createArray, createBundle } from "./create-arrays.js";
import { type PublishingHub, publishNew } from "./publish-new.js";
import type { SharedArray } from "./shared-array.js";
import type { SharedBundle } from "./shared-bundle.js";

export async function loadFile<F extends FileFormat>(
  hub: PublishingHub,
  name: string,
  path: string,
  options: LoadOptions<F>,
): Promise<Loaded<F>> {
  checkName(name);
  aString("path", path);
  const attempt = `load "${name}" from ${JSON.stringify(path)}`;
  const deadline = new Deadline(attempt, options, Number.POSITIVE_INFINITY);
  const { onProgress } = options;
  try {
    deadline.check();
    await using source = await LoadSource.open(path, options);
    const { content, byteLength } = source.plan;
    const shared = await publishNew<SharedArray | SharedBundle>(
      hub,
      {
        byteLength,
        create: (byteLength, given) => {
          if (content.kind === "array")
            return createArray(hub.objects, name, content.layout, byteLength, given);
          return createBundle(hub.objects, name, content.layouts, byteLength, {
            ...given,
            metadata: content.metadata,
          });
        },
        fill: (buffer) => source.fill(buffer, deadline, onProgress),
      },
      options,
      deadline,
    );
    return shared as Loaded<F>;
  } catch (error) {
    throw deadline.named(error);
  }
}

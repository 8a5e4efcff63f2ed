/** Publishes values of this process as an array, in one call. */
import type { DType } from "../../array/dtype.js";
import {
  dtypeOfValues,
  type HostValues,
  hostEntriesPerElement,
  toHostBytes,
} from "../../array/host-values.js";
import { arrayByteLength, contiguousLayout, elementCount } from "../../array/layout.js";
import { Deadline } from "../../base/deadline.js";
import { shownValue } from "../../base/shown-value.js";
import { checkName } from "../../wire/names.js";
import type { PutOptions } from "../hub-options.js";
import { createArray } from "./create-arrays.js";
import { type PublishingHub, publishNew } from "./publish-new.js";
import type { SharedArray } from "./shared-array.js";

export async function putArray<D extends DType>(
  hub: PublishingHub,
  name: string,
  values: HostValues<D>,
  options: PutOptions<D>,
): Promise<SharedArray<D>> {
  checkName(name);
  const dtype = chosenDType(name, values, options.dtype);
  const shape = chosenShape(dtype, values, options.shape);
  const bytes = toHostBytes(dtype, values, elementCount(shape));
  const layout = { ...contiguousLayout(dtype, shape), dtype };
  const deadline = new Deadline(`put "${name}"`, options, Number.POSITIVE_INFINITY);
  try {
    return await publishNew(
      hub,
      {
        byteLength: arrayByteLength(dtype, shape),
        create: (byteLength, given) => createArray(hub.objects, name, layout, byteLength, given),
        fill: (buffer) => buffer.write(0, bytes, deadline.rest()),
      },
      options,
      deadline,
    );
  } catch (error) {
    throw deadline.named(error);
  }
}

function chosenDType<D extends DType>(name: string, values: unknown, given: D | undefined): D {
  if (given !== undefined) return given;
  const told = dtypeOfValues(values);
  if (told !== undefined) return told as D;
  const attempt = `Cannot put "${name}"`;
  if (Array.isArray(values))
    throw new TypeError(`${attempt}: a plain array has no dtype. Pass the option dtype.`);
  const wanted = "values must be a typed array or an array of numbers";
  throw new TypeError(`${attempt}: ${wanted}, not ${shownValue(values)}`);
}

function chosenShape(
  dtype: DType,
  values: unknown,
  given: readonly number[] | undefined,
): readonly number[] {
  if (given !== undefined) return [...given];
  const length = (values as { readonly length?: unknown } | null | undefined)?.length;
  return [typeof length === "number" ? Math.floor(length / hostEntriesPerElement(dtype)) : 0];
}

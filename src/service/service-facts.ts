/** The meta of a worker's hello: how the client must make the channel for its requests. */
import * as v from "valibot";
import { type DType, dtypeNames } from "../array/dtype.js";
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import type { JsonValue } from "../channel/message-meta.js";
import { RANK_MAX } from "../ring/channel-layout.js";
import { count, positive } from "../wire/schemas.js";
import { ENVELOPE_BYTES } from "./envelope.js";

const VERSION = 1;

const factsSchema = v.strictObject({
  v: v.literal(VERSION),
  depth: v.pipe(positive, v.maxValue(limits.serviceDepthMax)),
  request: v.strictObject({
    dtype: v.picklist(dtypeNames),
    shape: v.pipe(v.array(count), v.maxLength(RANK_MAX)),
    /** Includes the envelope. */
    metaBytesMax: v.pipe(count, v.minValue(ENVELOPE_BYTES), v.maxValue(limits.channelMetaBytesMax)),
  }),
});

export interface ServiceFacts {
  readonly depth: number;
  readonly request: {
    readonly dtype: DType;
    readonly shape: readonly number[];
    readonly metaBytesMax: number;
  };
}

export function factsMessage({
  depth,
  request: { dtype, shape, metaBytesMax },
}: ServiceFacts): JsonValue {
  return { v: VERSION, depth, request: { dtype, shape, metaBytesMax } };
}

/** @throws PROTOCOL_MISMATCH */
export function parseFacts(label: string, value: unknown): ServiceFacts {
  const found = v.safeParse(factsSchema, value);
  if (found.success) return found.output;
  const what = found.issues[0].message;
  throw new CudaIpcError(
    "PROTOCOL_MISMATCH",
    `Cannot use worker "${label}": its hello does not follow version ${VERSION}: ${what}`,
  );
}

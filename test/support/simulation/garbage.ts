/** Packets that are not requests, and the hub's answer to each. */
import { CudaIpcError } from "../../../src/base/errors.js";
import type { Random } from "../random.js";

export interface SpoiledPacket {
  readonly bytes: Uint8Array;
  /** The id of the request, as far as it can be read. */
  readonly id: number;
  readonly code: string;
  readonly hangsUp: boolean;
  readonly damage?: CudaIpcError;
}

const texts: readonly (readonly [text: string, id: number, code: string])[] = [
  ["", 0, "INVALID_MESSAGE"],
  ["not JSON", 0, "INVALID_MESSAGE"],
  ["null", 0, "INVALID_MESSAGE"],
  ["[]", 0, "INVALID_MESSAGE"],
  ['{"v":1,"id":7,"op":"nonsense"}', 7, "INVALID_MESSAGE"],
  ['{"v":1,"id":-7,"op":"status"}', 0, "INVALID_MESSAGE"],
  ['{"v":1,"id":7,"op":"status","more":1}', 7, "INVALID_MESSAGE"],
  ['{"v":1,"id":7,"op":"release","lease":0}', 7, "INVALID_MESSAGE"],
  ['{"v":1,"id":7,"op":"open","name":7,"access":"read","wait":true}', 7, "INVALID_MESSAGE"],
  ['{"v":2,"id":7,"op":"status"}', 7, "PROTOCOL_MISMATCH"],
  [
    '{"v":1,"id":7,"op":"hello","client":{"version":"1","program":"x"},"resume":{"session":"1"}}',
    7,
    "INVALID_MESSAGE",
  ],
  // Too costly to parse, so the hub does not look for the id.
  [
    `{"v":1,"id":7,"op":"status","more":${"[".repeat(600)}${"]".repeat(600)}}`,
    0,
    "INVALID_MESSAGE",
  ],
  [`{"v":1,"id":7,"op":"status","more":[0${",0".repeat(1100)}]}`, 0, "INVALID_MESSAGE"],
];

export function garbage(random: Random): SpoiledPacket {
  const [text, id, code] = random.pick(texts);
  return { bytes: Buffer.from(text), id, code, hangsUp: true };
}

/** A packet that lost its descriptors or its end on the way. */
export function damaged(random: Random): SpoiledPacket {
  const code = random.pick(["TOO_MANY_FDS", "MESSAGE_TOO_LARGE"] as const);
  const damage = new CudaIpcError(code, "damaged on the way");
  return {
    bytes: Buffer.from('{"v":1,"id":5,"op":"create"}'),
    id: 5,
    code,
    hangsUp: code === "MESSAGE_TOO_LARGE",
    damage,
  };
}

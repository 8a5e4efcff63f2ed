/**
 * The 64-byte handle of memory and events of the host device, in place of a CUDA handle. It names
 * an open file of a process, and identifies both. Layout only; os/exporter-file.ts opens the file.
 *
 *      0         4       5      6      8         12        16                24
 *     +---------+-------+------+------+---------+---------+-----------------+
 *     | magic   |version| kind | slot | pid     | fd      | startTicks      |
 *     +---------+-------+------+------+---------+---------+-----------------+
 *     24                32               40               48               64
 *     +-----------------+----------------+----------------+----------------+
 *     | fileNumber      | generation     | pages | pidns  | bootId         |
 *     +-----------------+----------------+-------+--------+----------------+
 *
 * Little-endian. `pages` is the size of the file in units of 4 KiB. `pidns` is the PID namespace of
 * `pid`. `slot` and `generation` are those of an event in its arena, and 0 for memory. The pid is
 * at the same offset as in a CUDA handle.
 */
import type { ExporterFile } from "../../os/exporter-file.js";
import { IPC_HANDLE_BYTES } from "../event-calls.js";

const MAGIC = 0x43504948; // "HIPC"
const VERSION = 2;
const PAGE_BYTES = 4096;
const KINDS = ["memory", "event"] as const;

export interface HostHandle extends ExporterFile {
  readonly kind: (typeof KINDS)[number];
  readonly slot: number;
  readonly generation: number;
}

export function encodeHostHandle(handle: HostHandle): Uint8Array {
  const bytes = new Uint8Array(IPC_HANDLE_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, MAGIC, true);
  view.setUint8(4, VERSION);
  view.setUint8(5, KINDS.indexOf(handle.kind));
  view.setUint16(6, handle.slot, true);
  view.setUint32(8, handle.pid, true);
  view.setUint32(12, handle.fd, true);
  view.setBigUint64(16, BigInt(handle.startTicks), true);
  view.setBigUint64(24, BigInt(handle.fileNumber), true);
  view.setBigUint64(32, BigInt(handle.generation), true);
  view.setUint32(40, handle.byteLength / PAGE_BYTES, true);
  view.setUint32(44, handle.pidNamespace, true);
  bytes.set(Buffer.from(handle.bootId.replaceAll("-", ""), "hex"), 48);
  return bytes;
}

/** Decodes a handle of the wanted kind; undefined for other bytes. The content is not verified. */
export function decodeHostHandle(
  bytes: Uint8Array,
  kind: HostHandle["kind"],
): HostHandle | undefined {
  if (bytes.byteLength !== IPC_HANDLE_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.getUint32(0, true) !== MAGIC || view.getUint8(4) !== VERSION) return undefined;
  if (KINDS[view.getUint8(5)] !== kind) return undefined;
  const [startTicks, fileNumber, generation] = [16, 24, 32].map((offset) =>
    Number(view.getBigUint64(offset, true)),
  ) as [number, number, number];
  if (![startTicks, fileNumber, generation].every(Number.isSafeInteger)) return undefined;
  const slot = view.getUint16(6, true);
  if (kind === "memory" && (slot !== 0 || generation !== 0)) return undefined;
  return {
    kind,
    slot,
    pid: view.getUint32(8, true),
    fd: view.getUint32(12, true),
    startTicks,
    fileNumber,
    generation,
    byteLength: view.getUint32(40, true) * PAGE_BYTES,
    pidNamespace: view.getUint32(44, true),
    bootId: formatBootId(bytes.subarray(48)),
  };
}

function formatBootId(bytes: Uint8Array): string {
  const hex = Buffer.from(bytes).toString("hex");
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    hex.slice(12, 16),
    hex.slice(16, 20),
    hex.slice(20),
  ].join("-");
}

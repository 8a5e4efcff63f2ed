/** Copies bytes of an exported object over a link, in pieces. Each is checked by its seal. */
import { availableParallelism } from "node:os";
import { Deadline } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import type { CallResult, Part } from "../../wire/link-messages.js";
import type { MachineLink } from "../link/machine-link.js";
import type { ByteRange, ByteRanges } from "./byte-ranges.js";
import { PieceSize } from "./byte-ranges.js";

/** Pieces under way at a time: some are checked or written while another travels. */
const PIECES_AT_A_TIME = Math.max(4, Math.min(12, availableParallelism()));
/** Attempts for one piece. Only bytes that change meanwhile arrive different each time. */
const ATTEMPTS = 5;

export interface CopySource {
  readonly name: string;
  readonly link: MachineLink;
  readonly export: number;
  readonly part: Part;
}

/**
 * For a piece under way. WHY it is not given up: its bytes are sent already, and UCX would keep
 * them for a receive that never comes. A link that falls silent ends it.
 */
const UNLIMITED = new Deadline("copy a piece", {}, Number.POSITIVE_INFINITY);

/** Lets `write` fill the memory of a range at an address, which is valid until it settles. */
export type FillRange = (
  range: ByteRange,
  write: (target: bigint) => Promise<void>,
) => Promise<void>;

/**
 * Copies what is left of `ranges`. If it fails, `ranges` still has what was not copied.
 * @throws PEER_GONE, VERIFICATION_FAILED, ABORTED; what `fill` throws
 */
export async function copyParts(
  source: CopySource,
  ranges: ByteRanges,
  fill: FillRange,
  deadline: Deadline,
  onProgress: () => void,
): Promise<void> {
  const size = new PieceSize(limits.stagingBytes);
  let failed = false;
  const lane = async (): Promise<void> => {
    try {
      for (;;) {
        deadline.check();
        const range = failed ? undefined : ranges.take(size.bytes);
        if (range === undefined) return;
        const startMs = performance.now();
        await copyRange(source, ranges, range, fill);
        size.took(performance.now() - startMs);
        onProgress();
      }
    } catch (error) {
      failed = true;
      throw error;
    }
  };
  // All are awaited before an error is thrown, because the caller then frees the memory.
  const outcomes = await Promise.allSettled(Array.from({ length: PIECES_AT_A_TIME }, lane));
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
}

async function copyRange(
  source: CopySource,
  ranges: ByteRanges,
  range: ByteRange,
  fill: FillRange,
): Promise<void> {
  try {
    let isGood = false;
    for (let attempt = 0; !isGood && attempt < ATTEMPTS; attempt += 1) {
      await fill(range, async (address) => {
        isGood = await receive(source, range, address);
      });
    }
    if (!isGood) throw changing(source, range);
    ranges.done(range);
  } catch (error) {
    ranges.giveBack(range);
    throw error;
  }
}

/** @returns whether the bytes are those that the other machine had when it sent them */
async function receive(
  { link, part, export: from }: CopySource,
  { byteOffset, byteLength }: ByteRange,
  address: bigint,
): Promise<boolean> {
  const posted = link.receiveBytes({ address, byteLength });
  // Also handled if the call fails first.
  const arrived = posted.byteLength.then(
    (received) => ({ received, failure: undefined }),
    (failure: unknown) => ({ received: 0, failure }),
  );
  const { tag } = posted;
  let seal: CallResult<"send">;
  try {
    const call = { op: "send", export: from, part, byteOffset, byteLength, tag } as const;
    seal = await link.call(call, UNLIMITED);
  } catch (error) {
    // The other machine refused, so it sends nothing, or the link has ended.
    posted.cancel();
    // SAFETY: the memory is UCX's until this settles. The end of a silent link settles it.
    await arrived;
    throw error;
  }
  const { received, failure } = await arrived;
  if (failure !== undefined) throw failure;
  if (received !== byteLength) {
    const found = `${received} bytes came, wanted ${byteLength}`;
    throw new CudaIpcError("INVALID_MESSAGE", `Cannot copy from "${link.machine}": ${found}`);
  }
  return link.bytesSeal.isOf(seal, address, byteLength);
}

function changing({ name, link }: CopySource, { byteOffset }: ByteRange): CudaIpcError {
  return new CudaIpcError(
    "VERIFICATION_FAILED",
    `Cannot copy "${name}" from machine "${link.machine}": the bytes from ${byteOffset} on came ` +
      `different ${ATTEMPTS} times`,
    { remedy: "Let no process write to the array once it is published." },
  );
}

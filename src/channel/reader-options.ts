/** How a reader reads, as the caller says it. */
import { aBoolean, type Checks, oneOf, optionsOf } from "../base/option-checks.js";
import { shownValue } from "../base/shown-value.js";
import { aStream } from "../gpu/option-checks.js";
import type { Stream } from "../gpu/stream.js";
import type { ReadFrom } from "../ring/ring-reader.js";

export interface ReaderOptions {
  /**
   * The message committed last ("latest"), the oldest that is still there, or the next to come
   * (default).
   */
  readonly from?: ReadFrom | undefined;
  /**
   * The writer does not wait for this reader, which then loses messages where it is too slow; as
   * all do with "drop-oldest".
   */
  readonly mayBeOvertaken?: boolean | undefined;
  /**
   * Work on messages is done by this stream: it waits for their data and gives their slots back.
   */
  readonly stream?: Stream | undefined;
  /**
   * How long `next` asks without giving the event loop a turn, at most: 0.02 by default; 0 for a
   * process that has others to serve.
   */
  readonly spinMs?: number | undefined;
}

/** @throws TypeError, RangeError */
function checkSpin(option: string, value: unknown): void {
  const message = `${option} must be a number from 0, not ${shownValue(value)}`;
  if (typeof value !== "number") throw new TypeError(message);
  if (!(value >= 0)) throw new RangeError(message);
}

export const readerChecks: Checks<ReaderOptions> = {
  from: oneOf("latest", "oldest", "next"),
  mayBeOvertaken: aBoolean,
  stream: aStream,
  spinMs: checkSpin,
};

/** Options of other parts of the call may be among them. */
export const checkReaderOptions = optionsOf<ReaderOptions>("a reader", readerChecks);

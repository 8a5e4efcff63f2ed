/** Creates the control file of a channel, and opens and checks one of another process. */
import { CudaIpcError } from "../base/errors.js";
import {
  CHANNEL_VERSION,
  type ChannelFacts,
  control,
  controlByteLength,
  HEADERS_AT,
  headerStrideOf,
  MAGIC,
  POSITIONS_MAX,
  whenFullPolicies,
  whenWriterGonePolicies,
  writerStates,
} from "./channel-layout.js";
import { ControlWords } from "./control-words.js";
import { RingWords } from "./ring-words.js";

/** Writes the constant words into zeroed memory. The channel then has a writer. */
export function createControlFile(buffer: ArrayBufferLike, facts: ChannelFacts): ControlWords {
  const words = new RingWords(buffer, 0, controlByteLength(facts));
  words.setWord32(control.version, CHANNEL_VERSION);
  for (const name of ["slots", "readersMax", "metaBytesMax"] as const)
    words.setWord32(control[name], facts[name]);
  for (const name of ["slotBytes", "slotStride", "firstPosition"] as const)
    words.setCount(control[name], facts[name]);
  words.setWord32(control.headersAt, HEADERS_AT);
  words.setWord32(control.headerStride, headerStrideOf(facts.metaBytesMax));
  words.setWord32(control.whenFull, whenFullPolicies.indexOf(facts.whenFull));
  words.setWord32(control.whenWriterGone, whenWriterGonePolicies.indexOf(facts.whenWriterGone));
  words.setCount(control.published, facts.firstPosition);
  words.setCount(control.limit, facts.firstPosition);
  words.store32(control.state, writerStates.open);
  words.setWord32(control.magic, MAGIC[0]);
  words.setWord32(control.magic + 4, MAGIC[1]);
  return new ControlWords(words, facts);
}

/**
 * Opens the control file of another process.
 * @param wanted the facts in the channel's descriptor
 * @throws PROTOCOL_MISMATCH if the layout has another version; INVALID_DESCRIPTOR if it is not a
 * control file, or not of this channel
 */
export function openControlFile(
  label: string,
  buffer: ArrayBufferLike,
  byteLength: number,
  wanted: Omit<ChannelFacts, "firstPosition">,
): ControlWords {
  const refuse = (found: string) =>
    new CudaIpcError(
      "INVALID_DESCRIPTOR",
      `Cannot open channel "${label}": its control file ${found}`,
    );
  if (byteLength < controlByteLength(wanted)) {
    throw refuse(`has ${byteLength} bytes, wanted ${controlByteLength(wanted)}`);
  }
  const words = new RingWords(buffer, 0, controlByteLength(wanted));
  if (words.word32(control.magic) !== MAGIC[0] || words.word32(control.magic + 4) !== MAGIC[1]) {
    throw refuse('does not begin with "CIPCCHAN"');
  }
  const version = words.word32(control.version);
  if (version !== CHANNEL_VERSION) {
    const found = `its control file is of version ${version}, wanted ${CHANNEL_VERSION}`;
    throw new CudaIpcError("PROTOCOL_MISMATCH", `Cannot open channel "${label}": ${found}`);
  }
  const claims: readonly (readonly [string, unknown, unknown])[] = [
    ["headersAt", words.word32(control.headersAt), HEADERS_AT],
    ["headerStride", words.word32(control.headerStride), headerStrideOf(wanted.metaBytesMax)],
    ["slots", words.word32(control.slots), wanted.slots],
    ["readersMax", words.word32(control.readersMax), wanted.readersMax],
    ["metaBytesMax", words.word32(control.metaBytesMax), wanted.metaBytesMax],
    ["slotBytes", words.count(control.slotBytes), wanted.slotBytes],
    ["slotStride", words.count(control.slotStride), wanted.slotStride],
    ["whenFull", whenFullPolicies[words.word32(control.whenFull)], wanted.whenFull],
    [
      "whenWriterGone",
      whenWriterGonePolicies[words.word32(control.whenWriterGone)],
      wanted.whenWriterGone,
    ],
  ];
  for (const [name, found, want] of claims) {
    if (found !== want)
      throw refuse(`says ${name} is ${String(found)}, its descriptor ${String(want)}`);
  }
  const firstPosition = words.count(control.firstPosition);
  if (firstPosition > POSITIONS_MAX) throw refuse(`says firstPosition is ${firstPosition}`);
  return new ControlWords(words, { ...wanted, firstPosition });
}

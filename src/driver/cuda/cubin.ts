/**
 * Checks a cubin, the 64-bit ELF file that a GPU runs, and lists its kernels.
 *
 *     header (64 bytes)    section header (64 bytes)    symbol (24 bytes)
 *      32  phoff  u64        4  type    u32               0  name   u32, into the string table
 *      40  shoff  u64       24  offset  u64               4  info   u8, lower half 2: a function
 *      54  phentsize u16    32  size    u64               5  other  u8, bit 4: STO_CUDA_ENTRY
 *      56  phnum  u16       40  link    u32               6  section u16, 0: undefined
 *      58  shentsize u16
 *      60  shnum  u16
 *
 * The driver gets an address without a size, and reads whatever the file points to. So everything
 * that the file points to must lie within it.
 */

const HEADER_BYTES = 64;
const SECTION_BYTES = 64;
const SYMBOL_BYTES = 24;
const TYPE_SYMBOLS = 2;
const TYPE_NO_BYTES = 8;
const FUNCTION = 2;
const KERNEL = 0x10;

interface Section {
  readonly type: number;
  readonly offset: number;
  readonly byteLength: number;
  readonly link: number;
}

export function isElf(bytes: Uint8Array): boolean {
  return bytes[0] === 0x7f && bytes[1] === 0x45 && bytes[2] === 0x4c && bytes[3] === 0x46;
}

/** Returns the names of the kernels, or a string that says what is wrong with the file. */
export function cubinKernels(bytes: Uint8Array): string[] | string {
  const CLASS_64 = 2;
  const LITTLE_ENDIAN = 1;
  if (bytes.byteLength < HEADER_BYTES)
    return `found ${bytes.byteLength} bytes, wanted the ${HEADER_BYTES} of an ELF header`;
  if (bytes[4] !== CLASS_64 || bytes[5] !== LITTLE_ENDIAN)
    return "found an ELF file that is not 64-bit and little-endian";
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const [segmentsAt, sectionsAt] = [
    Number(view.getBigUint64(32, true)),
    Number(view.getBigUint64(40, true)),
  ];
  const segmentsEnd = segmentsAt + view.getUint16(54, true) * view.getUint16(56, true);
  const sectionCount = countSections(view, sectionsAt);
  const sectionsEnd = sectionsAt + sectionCount * SECTION_BYTES;
  if (sectionCount > 0 && view.getUint16(58, true) !== SECTION_BYTES)
    return "found section headers of an unknown size";
  if (Math.max(segmentsEnd, sectionsEnd) > bytes.byteLength)
    return cutOff(bytes, Math.max(segmentsEnd, sectionsEnd));

  const sections = Array.from({ length: sectionCount }, (_, i) =>
    readSection(view, sectionsAt + i * SECTION_BYTES),
  );
  for (const section of sections) {
    const end = section.offset + section.byteLength;
    if (section.type !== TYPE_NO_BYTES && end > bytes.byteLength) return cutOff(bytes, end);
  }
  const names = sections
    .filter((section) => section.type === TYPE_SYMBOLS)
    .flatMap((section) => kernelSymbols(bytes, view, section, sections[section.link]));
  return [...new Set(names)];
}

function cutOff(bytes: Uint8Array, end: number): string {
  return `found ${bytes.byteLength} bytes, wanted the ${end} that the file needs`;
}

/**
 * Counts the sections. If the header has no room for it, the size of the first section is the
 * count.
 */
function countSections(view: DataView, sectionsAt: number): number {
  const count = view.getUint16(60, true);
  if (count > 0 || sectionsAt === 0 || sectionsAt + SECTION_BYTES > view.byteLength) return count;
  return readSection(view, sectionsAt).byteLength;
}

function readSection(view: DataView, at: number): Section {
  return {
    type: view.getUint32(at + 4, true),
    offset: Number(view.getBigUint64(at + 24, true)),
    byteLength: Number(view.getBigUint64(at + 32, true)),
    link: view.getUint32(at + 40, true),
  };
}

function kernelSymbols(
  bytes: Uint8Array,
  view: DataView,
  symbols: Section,
  strings: Section | undefined,
): string[] {
  if (strings === undefined || strings.type === TYPE_NO_BYTES) return [];
  const names: string[] = [];
  const text = bytes.subarray(strings.offset, strings.offset + strings.byteLength);
  for (let at = 0; at + SYMBOL_BYTES <= symbols.byteLength; at += SYMBOL_BYTES) {
    const symbol = symbols.offset + at;
    const isKernel =
      (view.getUint8(symbol + 4) & 0xf) === FUNCTION && (view.getUint8(symbol + 5) & KERNEL) !== 0;
    if (!isKernel || view.getUint16(symbol + 6, true) === 0) continue;
    const start = view.getUint32(symbol, true);
    const end = text.indexOf(0, start);
    if (end > start) names.push(new TextDecoder().decode(text.subarray(start, end)));
  }
  return names;
}

/** How the vectors show bytes. */

export const HEX_NOTE =
  "Lines are `offset: 32 bytes in hex`. Lines that are all zero are left out.";

export function hexOf(bytes: Uint8Array): string[] {
  const lines: string[] = [];
  for (let at = 0; at < bytes.byteLength; at += 32) {
    const part = bytes.subarray(at, at + 32);
    if (part.some((byte) => byte !== 0)) lines.push(`${at}: ${Buffer.from(part).toString("hex")}`);
  }
  return lines;
}

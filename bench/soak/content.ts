/**
 * Contents that show whether they are whole: every word follows from the generation, and a checksum
 * covers all.
 *
 *   word 0       1            2              3 ...
 *        MAGIC   generation   checksum       body: one word for each index, made from the generation
 */
const MAGIC = 0x50a4_c0de;
const HEADER_WORDS = 3;

/** Content of this length and generation. */
export function contentOf(generation: number, words: number): Uint32Array {
  const content = new Uint32Array(words);
  for (let index = HEADER_WORDS; index < words; index += 1)
    content[index] = bodyWord(generation, index);
  content[0] = MAGIC;
  content[1] = generation;
  content[2] = checksum(content);
  return content;
}

/** Describes the first error in the content; undefined if it is correct. */
export function faultOf(content: Uint32Array, generation?: number): string | undefined {
  if (content[0] !== MAGIC) return `it begins with ${content[0]}, wanted ${MAGIC}`;
  const found = content[1] ?? 0;
  if (generation !== undefined && found !== generation)
    return `it is of generation ${found}, wanted ${generation}`;
  if (content[2] !== checksum(content))
    return `its checksum is ${content[2]}, that of its words ${checksum(content)}`;
  for (let index = HEADER_WORDS; index < content.length; index += 1) {
    if (content[index] !== bodyWord(found, index))
      return `word ${index} is not of generation ${found}`;
  }
  return undefined;
}

export function generationOf(content: Uint32Array): number {
  return content[1] ?? 0;
}

function bodyWord(generation: number, index: number): number {
  const mixed = Math.imul((generation ^ Math.imul(index, 0x9e37_79b1)) >>> 0, 0x85eb_ca6b);
  return (mixed ^ (mixed >>> 13)) >>> 0;
}

/** FNV-1a over all words but the checksum. */
function checksum(content: Uint32Array): number {
  let hash = 0x811c_9dc5;
  for (const [index, word] of content.entries()) {
    if (index !== 2) hash = Math.imul(hash ^ word, 0x0100_0193);
  }
  return hash >>> 0;
}

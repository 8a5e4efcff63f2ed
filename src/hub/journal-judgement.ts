/** What a journal that was found is worth: whether it is of this boot and this version, and how much of it is damaged. */
import { CudaIpcError } from "../base/errors.js";
import { JOURNAL_VERSION, type JournalContents, type JournalLines } from "./journal-lines.js";

/**
 * Whether what was read counts. Logs what is lost.
 * @throws HUB_UNAVAILABLE if another version wrote it in this boot: what it says still matters, and cannot be read here
 */
export function isOfThisBoot(
  path: string,
  found: JournalContents,
  { head }: JournalLines,
  bootId: string,
  log: (line: string) => void,
): boolean {
  const isOurs = found.head === head;
  if (!isOurs && found.records === 0) {
    if (found.lines > 0 && bootOf(found.head) === bootId) throw otherVersion(path, found);
    if (found.head !== "" || found.isTorn) {
      log(`does not use ${path}: it is of another boot, or nothing in it can be read`);
    }
    return false;
  }
  if (!isOurs) log(`line 1 of ${path} is damaged; the others say that they are of this boot`);
  if (found.damaged > 0) {
    const { damaged, firstDamaged } = found;
    const more = damaged > firstDamaged.length ? " and others" : "";
    log(`left out ${damaged} damaged lines of ${path}: line ${firstDamaged.join(", ")}${more}`);
  }
  if (found.missing > 0) log(`${found.missing} lines of ${path} are missing`);
  return true;
}

/** Undefined for what is no head. */
function bootOf(head: string): unknown {
  try {
    const value: unknown = JSON.parse(head);
    if (typeof value === "object" && value !== null && "version" in value && value.version !== JOURNAL_VERSION)
      return "boot" in value ? value.boot : undefined;
  } catch {
    // Damaged.
  }
  return undefined;
}

function otherVersion(path: string, { lines }: JournalContents): CudaIpcError {
  const found = `another version of cuda-ipc wrote its ${lines} lines since the machine started`;
  const remedy = "Start that version to keep the names, or move the file away to start without them.";
  return new CudaIpcError("HUB_UNAVAILABLE", `Cannot read "${path}": ${found}. ${remedy}`);
}

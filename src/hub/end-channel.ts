/** What the hub writes into the files of a channel, by way of descriptors that may have come from anybody. */
import { readFilePart, writeFilePart } from "../os/file-calls.js";
import { inspectMemoryFile, reopenWritable } from "../os/memory-file.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { endWriter, type WithoutWriter, type WordsFile } from "../ring/channel-end.js";

/** SAFETY: the size of the file was checked, and sealed, when the channel was created. */
export function wordsOf(file: OwnedFd): WordsFile {
  return {
    read: (byteOffset, bytes) => {
      readFilePart(file, bytes, byteOffset);
    },
    write: (byteOffset, bytes) => writeFilePart(file, bytes, byteOffset),
  };
}

/** As `endWriter`, also by a descriptor that a reader got for reading alone, where the system allows that. */
export function endWriterBy(control: OwnedFd, next: WithoutWriter): boolean {
  const twin = inspectMemoryFile(control).writable ? undefined : reopenWritable(control);
  try {
    return endWriter(wordsOf(twin ?? control), next);
  } finally {
    twin?.close();
  }
}

/**
 * The timelines of one device: those made here lie side by side in memory files of `limits.timelineArenaBytes`, each registered once
 * with a device however many timelines it holds; those imported share one mapping for each file that they come from.
 *
 * WHY no line is used twice: whoever still looks at one, a stream that has yet to see its end included, finds that it ended, and never
 * another timeline. The memory goes with the last timeline in it.
 */
import { limits } from "../base/limits.js";
import { acquireIn } from "../base/scope.js";
import { LINE_BYTES } from "../base/timeline-line.js";
import { inspectMemoryFile } from "../os/memory-file.js";
import type { OwnedFd } from "../os/owned-fd.js";
import type { Device } from "./device.js";
import { SharedWords } from "./shared-words.js";
import { checkPlace, ImportedTimeline, Timeline, type TimelinePlace } from "./timeline.js";

const LINES = limits.timelineArenaBytes / LINE_BYTES;

interface Area {
  readonly words: SharedWords;
  linesUsed: number;
}

export class TimelineArena {
  readonly #device: Device;
  readonly #imports = new Map<string, SharedWords>();
  #area: Area | undefined;

  constructor(device: Device) {
    this.#device = device;
  }

  create(label: string, onClose?: () => void): Timeline {
    const area = this.#areaWithRoom();
    const byteOffset = area.linesUsed * LINE_BYTES;
    area.linesUsed += 1;
    return new Timeline(label, area.words.retain(), byteOffset, { onClose, device: this.#device });
  }

  /** @throws INVALID_DESCRIPTOR */
  import(label: string, fd: OwnedFd, place: TimelinePlace, onClose?: () => void): ImportedTimeline {
    const key = fileKey(fd);
    return acquireIn((scope) => {
      const words = this.#imports.get(key)?.retain() ?? this.#importWords(key, fd);
      scope.own(words, (words) => words.release());
      checkPlace(label, place, words.byteLength);
      return new ImportedTimeline(label, words, place.byteOffset, { onClose, device: this.#device });
    });
  }

  /** Timelines stay usable until they are closed themselves. */
  close(): void {
    const area = this.#area;
    this.#area = undefined;
    area?.words.release();
  }

  #areaWithRoom(): Area {
    const area = this.#area;
    if (area !== undefined && area.linesUsed < LINES) return area;
    const fresh = { words: SharedWords.create(limits.timelineArenaBytes), linesUsed: 0 };
    area?.words.release();
    this.#area = fresh;
    return fresh;
  }

  #importWords(key: string, fd: OwnedFd): SharedWords {
    const words = SharedWords.import(fd, () => this.#imports.delete(key));
    this.#imports.set(key, words);
    return words;
  }
}

/** The file behind a descriptor, whichever descriptor of it this is. */
function fileKey(fd: OwnedFd): string {
  return inspectMemoryFile(fd).inode;
}

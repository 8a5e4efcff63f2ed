/**
 * The timelines of one device. Own timelines share memory files of `limits.timelineArenaBytes`,
 * each registered with a device once. Imported timelines of one file share one mapping. The memory
 * is freed with its last timeline.
 *
 * WHY: a line is never used for a second timeline. A late reader, for example a stream that has not
 * seen the end yet, must find the ended timeline.
 */
import { limits } from "../../base/limits.js";
import { acquireIn } from "../../base/scope.js";
import { LINE_BYTES, lineAt, takeOver } from "../../base/timeline-line.js";
import { inspectMemoryFile } from "../../os/memory-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import type { Device } from "../device.js";
import type { Surroundings } from "./any-timeline.js";
import { checkLocation, SharedWords, type TimelineLocation } from "./shared-words.js";
import { ImportedTimeline, Timeline } from "./timeline.js";

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

  /** As `create`, with a memory file of its own, which its next owner gets. */
  createAwaiting(label: string, onClose: () => void): Timeline {
    const words = SharedWords.create(limits.timelineArenaBytes);
    return new Timeline(label, words, 0, this.#awaiting(onClose));
  }

  /**
   * Continues a timeline whose owner is gone.
   * @throws INVALID_DESCRIPTOR
   */
  resume(label: string, fd: OwnedFd, location: TimelineLocation, onClose: () => void): Timeline {
    return acquireIn((scope) => {
      const words = SharedWords.import(fd, () => {}, "read-write");
      scope.own(words, (words) => words.release());
      checkLocation(label, location, words.byteLength);
      takeOver(lineAt(words.cpu, location.byteOffset));
      return new Timeline(label, words, location.byteOffset, this.#awaiting(onClose));
    });
  }

  /** @throws INVALID_DESCRIPTOR */
  import(
    label: string,
    fd: OwnedFd,
    location: TimelineLocation,
    onClose?: () => void,
  ): ImportedTimeline {
    const key = fileKey(fd);
    return acquireIn((scope) => {
      const words = this.#imports.get(key)?.retain() ?? this.#importWords(key, fd);
      scope.own(words, (words) => words.release());
      checkLocation(label, location, words.byteLength);
      return new ImportedTimeline(label, words, location.byteOffset, {
        onClose,
        device: this.#device,
      });
    });
  }

  /** Open timelines stay usable until they are closed. */
  close(): void {
    const area = this.#area;
    this.#area = undefined;
    area?.words.release();
  }

  #awaiting(onClose: () => void): Surroundings {
    return { onClose, device: this.#device, awaitsOwner: true };
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

/** The same for every file descriptor of one file. */
function fileKey(fd: OwnedFd): string {
  return inspectMemoryFile(fd).inode;
}

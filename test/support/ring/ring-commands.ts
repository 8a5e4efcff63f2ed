/** The commands for a ring and its model, and the messages that are written. */
import { flags, type page } from "../../../src/ring/channel-layout.js";
import type { ReadFrom } from "../../../src/ring/ring-reader.js";
import type { ModelMessage } from "./reader-model.js";
import type { RingRig } from "./ring-rig.js";

export type RingCommand =
  | { readonly do: "put" | "drop" | "passOver" | "sleepWriter" | "wakeWriter" }
  | {
      readonly do: "attach";
      readonly seat: number;
      readonly from: ReadFrom;
      readonly lossy: boolean;
    }
  | {
      readonly do: "take" | "detach" | "die" | "sleep" | "wake" | "finishStream";
      readonly seat: number;
    }
  | {
      readonly do: "release";
      readonly seat: number;
      readonly which: number;
      readonly byStream: boolean;
    }
  | { readonly do: "dieTaking"; readonly seat: number; readonly at: number }
  | { readonly do: "writerDies"; readonly at: number; readonly unfinished: number }
  | {
      readonly do: "nonsense";
      readonly seat: number;
      readonly word: keyof typeof page;
      readonly value: bigint;
    };

export function message(position: number, epoch: number) {
  return { timestampMs: 1, byteLength: 8, readyAt: position + 1, epoch, flags: 0, metaBytes: 0 };
}

export function isOf(rig: RingRig, { position }: ModelMessage, epoch: number): boolean {
  const header = rig.control.header(position % rig.facts.slots);
  return header.epoch === epoch && (header.flags & flags.lost) === 0;
}

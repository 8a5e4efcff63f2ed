/**
 * Who still needs which slots of a ring, as far as its words tell an observer. The words of a busy
 * ring are of slightly different moments.
 */
import { CLAIMS, readerStates } from "./channel-layout.js";
import type { ControlWords } from "./control-words.js";
import type { PageWords } from "./page-words.js";

/**
 * What a slot is to a reader, the most important one last: `free` if the reader needs it no more,
 * `unreleased` if it reads or has still to read the message, `claimed` if it reads the message and
 * may be overtaken, `stream` if it released the message after work of a GPU stream that goes on.
 */
export const slotStates = ["free", "unreleased", "claimed", "stream"] as const;

export type SlotState = (typeof slotStates)[number];

/** Columns of equally many slots, in the order of their messages: the oldest first. */
export interface SlotUse {
  readonly slots: number;
  readonly slotsPerColumn: number;
  readonly columns: number;
  /** The slot of the first column. */
  readonly firstSlot: number;
  /** So many slots from the first one on may be written without another look at the readers. */
  readonly writable: number;
  readonly readers: readonly ReaderUse[];
}

export interface ReaderUse {
  readonly place: number;
  /** One for each column: the most important state of its slots. */
  readonly states: readonly SlotState[];
}

/** @param columnsMax more slots than this share columns */
export function slotUseOf(
  control: ControlWords,
  pages: readonly PageWords[],
  columnsMax: number,
): SlotUse {
  const { slots } = control.facts;
  const slotsPerColumn = Math.ceil(slots / columnsMax);
  const columns = Math.ceil(slots / slotsPerColumn);
  const { published } = control;
  const begin = published - slots;
  return {
    slots,
    slotsPerColumn,
    columns,
    firstSlot: published % slots,
    writable: Math.min(slots, Math.max(0, control.limit - published)),
    readers: pages.flatMap((page, place) => {
      if (page.state !== readerStates.attached) return [];
      const use = new ReaderColumns(columns, slotsPerColumn, slots);
      use.mark(page.released - begin, slots, "unreleased");
      use.mark(page.done - begin, Math.min(page.gpuReleased, page.released) - begin, "stream");
      markClaims(page, published, use);
      return [{ place, states: use.states }];
    }),
  };
}

function markClaims(page: PageWords, published: number, use: ReaderColumns): void {
  const { slots } = use;
  for (let index = 0; index < CLAIMS; index += 1) {
    const claim = page.claim(index);
    if (claim === 0 || (claim < 0 && page.done >= -claim)) continue;
    // A slot can stay claimed while the ring goes round.
    const at = (((Math.abs(claim) - 1 - published) % slots) + slots) % slots;
    use.mark(at, at + 1, claim > 0 ? "claimed" : "stream");
  }
}

class ReaderColumns {
  readonly states: SlotState[];
  readonly slots: number;
  readonly #slotsPerColumn: number;

  constructor(columns: number, slotsPerColumn: number, slots: number) {
    this.states = Array.from({ length: columns }, () => "free");
    this.slots = slots;
    this.#slotsPerColumn = slotsPerColumn;
  }

  /** Marks the slots from `begin` to before `end`, counted from the oldest message. */
  mark(begin: number, end: number, state: SlotState): void {
    const [first, last] = [Math.max(0, begin), Math.min(this.slots, end)];
    if (!(first < last)) return;
    const to = Math.ceil(last / this.#slotsPerColumn);
    for (let column = Math.floor(first / this.#slotsPerColumn); column < to; column += 1) {
      const before = this.states[column] as SlotState;
      if (slotStates.indexOf(state) > slotStates.indexOf(before)) this.states[column] = state;
    }
  }
}

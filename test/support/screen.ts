/** A terminal as a program sees it: as much of a VT100 as `cuda-ipc top` and a shell use. */

interface Buffer {
  lines: string[][];
  row: number;
  column: number;
  /** Row and column that a program saved. */
  saved: [row: number, column: number];
}

/** One control sequence, one control character, or one other character. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: it reads control sequences
const PART = /\u001b\[([?>]?)([\d;]*)([ -/]*[@-~])|\u001b[()][A-Z0-9]|\u001b[^[]|[\s\S]/gu;

export class Screen {
  rows: number;
  columns: number;
  /** Whether the program is on the alternate screen. */
  alternate = false;
  cursorVisible = true;
  wraps = true;
  /** False on the alternate screen after the first part of a frame, until its last part is there. */
  isWhole = true;
  /** Sequences that no program of ours should send. */
  readonly unknown: string[] = [];
  #main = emptyBuffer();
  #other = emptyBuffer();
  #rest = "";

  constructor(rows: number, columns: number) {
    this.rows = rows;
    this.columns = columns;
  }

  /** The text of the screen, without spaces at line ends. */
  get text(): string {
    const { lines } = this.#buffer;
    return Array.from({ length: this.rows }, (_, row) =>
      Array.from(lines[row] ?? [], (cell) => cell ?? " ")
        .join("")
        .trimEnd(),
    ).join("\n");
  }

  write(text: string): void {
    const all = this.#rest + text;
    // A sequence may be cut anywhere.
    // biome-ignore lint/suspicious/noControlCharactersInRegex: it reads control sequences
    const cut = /\u001b(\[[?>]?[\d;]*)?$/.exec(all)?.index ?? all.length;
    this.#rest = all.slice(cut);
    for (const [part, mark, numbers, end] of all.slice(0, cut).matchAll(PART)) {
      if (end !== undefined) this.#control(mark ?? "", numbers ?? "", end);
      else this.#character(part);
    }
  }

  get #buffer(): Buffer {
    return this.alternate ? this.#other : this.#main;
  }

  #control(mark: string, numbers: string, end: string): void {
    const buffer = this.#buffer;
    const [first = 0, second = 0] = numbers.split(";").map(Number);
    const line = buffer.lines[buffer.row] ?? [];
    if (mark === "?" && (end === "h" || end === "l")) this.#mode(first, end === "h");
    else if (end === "H") {
      buffer.row = Math.max(1, first) - 1;
      buffer.column = Math.max(1, second) - 1;
      // A frame of `top` begins at home and ends by clearing what is below it.
      if (this.alternate) this.isWhole = false;
    } else if (end === "G") buffer.column = Math.max(1, first) - 1;
    else if (end === "K") buffer.lines[buffer.row] = line.slice(0, buffer.column);
    else if (end === "J") {
      const from = first === 2 ? 0 : buffer.row + 1;
      buffer.lines.length = Math.min(buffer.lines.length, from);
      if (first !== 2) buffer.lines[buffer.row] = line.slice(0, buffer.column);
      this.isWhole = true;
    } else if (end === "C") buffer.column += Math.max(1, first);
    else if (end !== "m") this.unknown.push(`${mark}${numbers}${end}`);
  }

  #mode(mode: number, on: boolean): void {
    if (mode === 25) this.cursorVisible = on;
    else if (mode === 7) this.wraps = on;
    else if (mode === 1049) {
      this.alternate = on;
      this.isWhole = true;
      if (on) this.#other = emptyBuffer();
    } else if (mode !== 2004) this.unknown.push(`?${mode}`);
  }

  #character(character: string): void {
    const buffer = this.#buffer;
    if (character === "\u001b7") buffer.saved = [buffer.row, buffer.column];
    else if (character === "\u001b8") [buffer.row, buffer.column] = buffer.saved;
    else if (character === "\r") buffer.column = 0;
    else if (character === "\b") buffer.column = Math.max(0, buffer.column - 1);
    else if (character === "\n") {
      buffer.row += 1;
      if (buffer.row < this.rows) return;
      buffer.lines.splice(0, buffer.row - this.rows + 1);
      buffer.row = this.rows - 1;
    } else if (character >= " ") this.#put(character);
    else if (character !== "\u0007") this.unknown.push(character);
  }

  #put(character: string): void {
    const buffer = this.#buffer;
    if (buffer.column >= this.columns) {
      if (this.wraps) {
        this.#character("\n");
        buffer.column = 0;
      } else buffer.column = this.columns - 1;
    }
    const line = buffer.lines[buffer.row] ?? [];
    buffer.lines[buffer.row] = line;
    line[buffer.column] = character;
    buffer.column += 1;
  }
}

function emptyBuffer(): Buffer {
  return { lines: [], row: 0, column: 0, saved: [0, 0] };
}

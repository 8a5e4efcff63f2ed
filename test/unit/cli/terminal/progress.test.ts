import assert from "node:assert/strict";
import { Writable } from "node:stream";
import { afterEach, describe, it } from "node:test";
import { startProgress } from "../../../../src/cli/terminal/progress.js";
import { Terminal } from "../../../../src/cli/terminal/terminal.js";

const { TERM } = process.env;

function drawnOn(term: string, totalBytes: number): string {
  process.env.TERM = term;
  let drawn = "";
  const stream = new Writable({
    write(chunk, _encoding, done) {
      drawn += String(chunk);
      done();
    },
  });
  Object.assign(stream, { isTTY: true, columns: 200, hasColors: () => false });
  const progress = startProgress(new Terminal(stream, stream), "Reading", totalBytes);
  progress.update(totalBytes / 4);
  progress.stop();
  return drawn;
}

describe("startProgress", () => {
  afterEach(() => {
    if (TERM === undefined) delete process.env.TERM;
    else process.env.TERM = TERM;
  });

  it("prints the done and total sizes in readable units", () => {
    assert.match(drawnOn("xterm", 2 ** 30), /Reading .+ 0% {2}0 bytes of 1 GiB/);
  });

  it("draws nothing on a terminal that cannot redraw a line, nor for no bytes", () => {
    assert.equal(drawnOn("dumb", 2 ** 30), "");
    assert.equal(drawnOn("xterm", 0), "");
  });
});

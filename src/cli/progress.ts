/** A progress bar on standard error, where a person watches it. */
import { Presets, SingleBar } from "cli-progress";
import { formatBytes } from "../base/bytes.js";
import type { Terminal } from "./terminal.js";

export interface Progress {
  update(doneBytes: number): void;
  stop(): void;
}

/** Takes the bar away again when it is stopped: what was done is said in a line of its own. */
export function startProgress(terminal: Terminal, verb: string, totalBytes: number): Progress {
  if (!terminal.isWatched || totalBytes === 0) return { update: () => {}, stop: () => {} };
  const startMs = performance.now();
  const bar = new SingleBar(
    {
      stream: process.stderr,
      clearOnComplete: true,
      hideCursor: true,
      // WHY: what ends the command cleans up; the bar's own handler would end the process before that.
      gracefulExit: false,
      format: `${verb} {bar} {percentage}%  {done} of {total}  {speed}`,
      barsize: 30,
    },
    Presets.shades_classic,
  );
  const total = formatBytes(totalBytes);
  const facts = (doneBytes: number) => {
    const seconds = (performance.now() - startMs) / 1000;
    const speed = seconds === 0 ? "" : `${formatBytes(Math.round(doneBytes / seconds))}/s`;
    return { done: formatBytes(doneBytes), total, speed };
  };
  bar.start(totalBytes, 0, facts(0));
  return {
    update: (doneBytes) => bar.update(doneBytes, facts(doneBytes)),
    stop: () => bar.stop(),
  };
}

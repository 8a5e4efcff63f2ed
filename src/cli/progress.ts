/** A progress bar on standard error, where a person watches it. */
import { Presets, SingleBar } from "cli-progress";
import type { FileProgress } from "../client/hub-options.js";
import type { Terminal } from "./terminal.js";
import { sizeWords } from "./words.js";

interface FileProgressBar {
  onProgress(progress: FileProgress): void;
  stop(): void;
}

interface Progress {
  update(doneBytes: number): void;
  stop(): void;
}

/** A bar for the progress that a call of the library reports: it appears with the first report. */
export function fileProgress(terminal: Terminal, verb: string): FileProgressBar {
  let bar: Progress | undefined;
  return {
    onProgress: ({ doneBytes, totalBytes }) => {
      bar ??= startProgress(terminal, verb, totalBytes);
      bar.update(doneBytes);
    },
    stop: () => bar?.stop(),
  };
}

/** Takes the bar away again when it is stopped: what was done is said in a line of its own. */
export function startProgress(terminal: Terminal, verb: string, totalBytes: number): Progress {
  const stream = terminal.progressStream;
  if (stream === undefined || totalBytes === 0) return { update: () => {}, stop: () => {} };
  const startMs = performance.now();
  const bar = new SingleBar(
    {
      stream,
      clearOnComplete: true,
      hideCursor: true,
      // WHY: what ends the command cleans up; the bar's own handler would end the process before that.
      gracefulExit: false,
      format: `${verb} {bar} {percentage}%  {doneSize} of {totalSize}  {speed}`,
      barsize: 30,
    },
    Presets.shades_classic,
  );
  // WHY not "total": the bar has numbers of its own under that name, which would win.
  const totalSize = sizeWords(totalBytes);
  const facts = (doneBytes: number) => {
    const seconds = (performance.now() - startMs) / 1000;
    const speed = seconds === 0 ? "" : `${sizeWords(Math.round(doneBytes / seconds))}/s`;
    return { doneSize: sizeWords(doneBytes), totalSize, speed };
  };
  bar.start(totalBytes, 0, facts(0));
  return {
    update: (doneBytes) => bar.update(doneBytes, facts(doneBytes)),
    stop: () => bar.stop(),
  };
}

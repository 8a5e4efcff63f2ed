/** A progress bar on standard error, if that is a terminal. */
import { Presets, SingleBar } from "cli-progress";
import type { FileProgress } from "../../client/hub-options.js";
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

/** A bar for `onProgress` of a library call. It appears with the first report. */
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

/** Shows a bar until `stop()`, which erases it. */
export function startProgress(terminal: Terminal, verb: string, totalBytes: number): Progress {
  const stream = terminal.progressStream;
  if (stream === undefined || totalBytes === 0) return { update: () => {}, stop: () => {} };
  const startMs = performance.now();
  const bar = new SingleBar(
    {
      stream,
      clearOnComplete: true,
      hideCursor: true,
      // WHY: the bar's own signal handler would end the process before the command cleans up.
      gracefulExit: false,
      format: `${verb} {bar} {percentage}%  {doneSize} of {totalSize}  {speed}`,
      barsize: 30,
    },
    Presets.shades_classic,
  );
  // Not named "total", because the bar's own value of that name would replace it.
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

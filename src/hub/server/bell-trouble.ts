/** Says what a hub lacks that rings its bells without asynchronous I/O (AIO). */
import type { Log } from "../../base/log-events.js";
import { prepareBellSignals } from "../../os/bell-signal.js";
import { errnoName, errnos } from "../../os/system-error.js";

/** Prepares the bells before the first client, and logs what is missing. */
export function prepareBells(log: Log): void {
  for (const trouble of bellTroubles()) log("bells-without-aio", trouble);
}

/** Tries again if AIO was refused. Empty if bells ring by AIO. */
export function bellTroubles(): string[] {
  const errno = prepareBellSignals();
  if (errno === undefined) return [];
  const cause =
    errno === errnos.EAGAIN
      ? "all of fs.aio-max-nr is taken. Raise it with sysctl"
      : `io_setup failed with ${errnoName(errno)}. A container's seccomp profile may refuse it`;
  return [
    `The hub wakes processes without asynchronous I/O, because ${cause}. ` +
      "Until then a hostile process can delay each wake-up by a few milliseconds.",
  ];
}

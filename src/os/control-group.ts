/** The service of systemd that this process belongs to. When it stops, all its processes end. */
import { readFileSync } from "node:fs";

/**
 * The unit, such as `web.service`; undefined outside of services, where a signal is for this
 * process alone. https://man7.org/linux/man-pages/man7/cgroups.7.html
 */
export function ownService(read: () => string = readOwn): string | undefined {
  // Version 2 has one line, 0::/path. Version 1 has a line per controller, and systemd's own.
  const line = /^(?:0:|\d+:name=systemd):(.*)$/m.exec(read());
  const units = line?.[1]?.split("/").filter((name) => /\.(service|scope)$/.test(name)) ?? [];
  const innermost = units.at(-1);
  // user@1000.service holds all that a user's service manager runs, sessions and scopes included.
  const isService = innermost?.endsWith(".service") && !innermost.startsWith("user@");
  return isService ? innermost : undefined;
}

function readOwn(): string {
  try {
    return readFileSync("/proc/self/cgroup", "utf8");
  } catch {
    // No /proc, no service manager.
    return "";
  }
}

/** What `top` prints once if nobody looks at a screen: all views, as text or as JSON. */

import { formatTable } from "../terminal/table.js";
import type { Terminal } from "../terminal/terminal.js";
import { hubTrouble, hubWords } from "./hub-line.js";
import { views } from "./top-state.js";
import type { Look } from "./view.js";

export function printLook(terminal: Terminal, look: Look, filter: string): void {
  const { hub, gpusUnknown, atMs } = look.snapshot;
  terminal.line(hubTrouble(hub, atMs) ?? `${hubWords(hub, atMs)}`);
  if (gpusUnknown !== undefined) terminal.line(`GPUs: totals unknown (${gpusUnknown})`);
  for (const { title, columns, sortedBy, rows, nothing } of views) {
    const found = rows(look, { sortedBy, reversed: false, filter });
    terminal.line();
    terminal.line(terminal.style("bold", title));
    if (found.length === 0) {
      terminal.line(filter === "" ? nothing : `Nothing matches "${filter}".`);
      continue;
    }
    const cells = found.map((row) => row.cells());
    for (const line of formatTable(columns, cells)) terminal.line(line);
  }
}

/** The snapshot, with the rates of each channel, each reader and each service. */
export function lookAsJson({ snapshot, rates }: Look): object {
  return {
    ...snapshot,
    ratesOverMs: rates?.ms ?? null,
    channels: snapshot.channels.map((channel) => {
      const found = rates?.channels.get(channel.object);
      if (channel.unreadable !== undefined || found === undefined) return channel;
      const { messages, bytes = null, dropped } = found;
      return {
        ...channel,
        rates: { messages, bytes, dropped },
        readers: channel.readers.map((reader) => ({
          ...reader,
          rates: found.readers.get(reader.place),
        })),
      };
    }),
    services: snapshot.services.map((service) => ({
      ...service,
      rates: rates?.services.get(service.name) ?? null,
    })),
  };
}

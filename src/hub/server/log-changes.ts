/** What the log says of each change of the hub's state, from the records that the journal gets. */
import { formatBytes } from "../../base/bytes.js";
import type { Log } from "../../base/log-events.js";
import { chargedBytes } from "../../wire/descriptor.js";
import type { HubRecord } from "../restart/hub-records.js";

type Line = Parameters<Log>;

export function logChanges(log: Log, records: readonly HubRecord[]): void {
  for (const record of records) {
    const line = lineOf(record);
    if (line !== undefined) log(...line);
  }
}

function lineOf(record: HubRecord): Line | undefined {
  switch (record.t) {
    case "session": {
      const { id: session, pid, uid, program } = record;
      const message = `session ${session} of process ${pid} (${program}) began`;
      return ["session-began", message, { session, pid, uid }];
    }
    case "session-ended": {
      const { session } = record;
      return ["session-ended", `session ${session} ended`, { session }];
    }
    case "object": {
      const { id: object, name, owner, descriptor } = record;
      const { hostBytes, deviceBytes } = chargedBytes(descriptor);
      const [bytes, { pid, uid }] = [hostBytes + deviceBytes, owner];
      const message = `process ${pid} created "${name}", object ${object}, ${formatBytes(bytes)}`;
      return ["object-created", message, { object, name, bytes, pid, uid }];
    }
    case "published": {
      const { object } = record;
      return ["object-published", `object ${object} was published`, { object }];
    }
    case "unnamed": {
      const { object } = record;
      return ["object-removed", `the name of object ${object} was removed`, { object }];
    }
    case "object-ended": {
      const { object } = record;
      return ["object-ended", `object ${object} ended`, { object }];
    }
    case "lease": {
      const { id: lease, object, session, kind, role = kind } = record;
      const message = `session ${session} holds object ${object} by lease ${lease} (${role})`;
      return ["lease-granted", message, { lease, object, session }];
    }
    case "released": {
      const { lease } = record;
      return ["lease-released", `lease ${lease} was released`, { lease }];
    }
    case "last-id":
      return undefined;
  }
}

/** The largest objects, and what each program holds. */
import type { Snapshot, WatchedClient, WatchedObject } from "../snapshot.js";
import { type Family, type Labels, shownText } from "./exposition.js";
import { deviceLabels, gauge } from "./hub-metrics.js";
import type { Chosen } from "./own-series.js";

/** The largest first, because they matter most, and their sizes never change. */
export function largestFirst(one: WatchedObject, other: WatchedObject): number {
  return other.heldBytes - one.heldBytes || one.object - other.object;
}

export function objectMetrics({ own, leftOut }: Chosen<WatchedObject>): Family[] {
  const labelled = own.map((object) => ({ object, labels: objectLabels(object) }));
  const of = (name: string, help: string, value: (object: WatchedObject) => number) =>
    gauge(
      `object_${name}`,
      help,
      labelled.map(({ object, labels }) => ({ labels, value: value(object) })),
    );
  return [
    of("bytes", "Memory that the object holds.", ({ heldBytes }) => heldBytes),
    of("leases", "Open holds on the object.", ({ leases }) => leases),
    of("created_timestamp_seconds", "Unix time when it was created.", ({ createdAtMs }) => {
      return createdAtMs / 1000;
    }),
    gauge("objects_left_out_bytes", "Memory of the objects without time series of their own.", [
      { value: leftOut.reduce((sum, { heldBytes }) => sum + heldBytes, 0) },
    ]),
  ];
}

function objectLabels({ name, device, descriptor, lifetime }: WatchedObject): Labels {
  return { name, kind: descriptor.content.kind, lifetime, ...deviceLabels(device) };
}

export interface ProgramUse {
  readonly program: string;
  readonly user: string;
  readonly clients: readonly WatchedClient[];
}

/** The clients by program and user: processes come and go, programs stay. */
export function programsOf({ clients }: Snapshot): ProgramUse[] {
  const groups = new Map<string, ProgramUse & { readonly clients: WatchedClient[] }>();
  for (const client of clients) {
    const program = shownText(client.program);
    const user = client.user ?? String(client.uid);
    const key = JSON.stringify([program, user]);
    const group = groups.get(key) ?? { program, user, clients: [] };
    groups.set(key, group);
    group.clients.push(client);
  }
  return [...groups.values()];
}

/** Those whose oldest client came first, so that a new program displaces no other. */
export function oldestFirst(one: ProgramUse, other: ProgramUse): number {
  return (one.clients[0]?.session ?? 0) - (other.clients[0]?.session ?? 0);
}

export function programMetrics({ own }: Chosen<ProgramUse>): Family[] {
  const sumOf = ({ clients }: ProgramUse, value: (client: WatchedClient) => number) =>
    clients.reduce((sum, client) => sum + value(client), 0);
  const of = (name: string, help: string, value: (client: WatchedClient) => number) =>
    gauge(
      `program_${name}`,
      help,
      own.map((use) => ({
        labels: { program: use.program, user: use.user },
        value: sumOf(use, value),
      })),
    );
  return [
    of("clients", "Clients that run the program.", () => 1),
    of("leases", "Holds of these clients.", ({ leases }) => leases),
    gauge(
      "program_memory_bytes",
      "Memory of the objects that these clients created and still hold.",
      own.flatMap((use) => {
        const { program, user } = use;
        const sample = (device: string, value: number) => ({
          labels: { program, user, device },
          value,
        });
        return [
          sample(
            "host",
            sumOf(use, ({ hostBytes }) => hostBytes),
          ),
          sample(
            "gpu",
            sumOf(use, ({ deviceBytes }) => deviceBytes),
          ),
        ];
      }),
    ),
  ];
}

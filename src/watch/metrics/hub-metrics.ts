/** What a hub says of itself, and the memory of devices. */
import { removalOf } from "../removal.js";
import type { Snapshot, WatchedDevice } from "../snapshot.js";
import type { Family, Labels } from "./exposition.js";
import type { Chosen } from "./own-series.js";

type Status = NonNullable<Snapshot["hub"]["status"]>;

/** `UUID` is also a label of dcgm-exporter's metrics, so that both can be joined. */
export function deviceLabels(device: string): Labels {
  return device === "host" ? { device } : { device: "gpu", UUID: device };
}

/** Has a value whether or not the hub answers. */
export function upMetrics({ hub }: Snapshot): Family[] {
  return [
    gauge("up", "Whether the hub answered: 1, or 0 if no hub runs or it did not answer in time.", [
      { value: Number(hub.answers) },
    ]),
    {
      name: "cuda_ipc_hub_restarts_total",
      type: "counter",
      help: "How many hubs followed the first one that this exporter saw.",
      samples: [{ value: hub.successors }],
    },
  ];
}

export function hubMetrics(status: Status): Family[] {
  const { version, instance, pid, socket, keeper } = status;
  const one = (name: string, help: string, value: number) => gauge(name, help, [{ value }]);
  return [
    gauge("hub_info", "The hub, in labels. The value is always 1.", [
      { labels: { version, instance, pid, socket }, value: 1 },
    ]),
    one("hub_start_time_seconds", "Unix time when the hub started.", status.startedAtMs / 1000),
    gauge("clients", "Clients of the hub. Detached ones lost their connection.", [
      { labels: { state: "connected" }, value: status.clients },
      { labels: { state: "detached" }, value: status.detached },
    ]),
    one("objects", "Shared objects.", status.objects),
    one("pinned_objects", "Objects that stay until they are removed.", status.pinned),
    one(
      "nameless_objects",
      "Objects that were removed or replaced and that processes still hold.",
      status.nameless.objects,
    ),
    gauge("nameless_memory_bytes", "Memory of the objects without a name.", [
      { labels: { device: "host" }, value: status.nameless.hostBytes },
      { labels: { device: "gpu" }, value: status.nameless.deviceBytes },
    ]),
    one(
      "objects_without_memory",
      "Objects whose memory no holder has brought back after a crash of the hub.",
      status.withoutMemory,
    ),
    one("lost_objects", "Pinned objects that ended with hub and keeper.", status.lost.length),
    one("leases", "Open holds on objects.", status.leases),
    one("waiting_opens", "Opens that wait for an object.", status.waitingOpens),
    gauge("hub_memory_bytes", "Memory of all objects of the hub.", [
      { labels: { device: "host" }, value: status.hostBytes },
      { labels: { device: "gpu" }, value: status.deviceBytes },
    ]),
    gauge("limit_used_ratio", "How much of a limit is used, from 0 to 1.", limitSamples(status)),
    one("keeper_up", "Whether a keeper would start the next hub.", Number(keeper !== null)),
    gauge("keeper_pending_descriptors", "Descriptors that the keeper does not have yet.", [
      keeper === null ? undefined : { value: keeper.pending },
    ]),
    one(
      "hub_troubles",
      "Problems of the hub with its files or its system.",
      status.troubles.length,
    ),
  ];
}

/** Without rates, and without the limits of this client, which holds nothing. */
function limitSamples({ limits }: Status): Family["samples"] {
  return limits.map(({ of, resource, limit, used }) => {
    if (of === "client" || used === null || limit === 0) return undefined;
    return { labels: { of, resource }, value: used / limit };
  });
}

export function deviceMetrics(
  { gpusUnknown }: Snapshot,
  { own: devices }: Chosen<WatchedDevice>,
): Family[] {
  const of = (name: string, help: string, value: (device: WatchedDevice) => number | undefined) =>
    gauge(
      `device_memory_${name}_bytes`,
      help,
      devices.map((device) => {
        const bytes = value(device);
        const labels = { ...deviceLabels(device.device), model: device.model };
        return bytes === undefined ? undefined : { labels, value: bytes };
      }),
    );
  return [
    gauge("nvml_up", "Whether NVIDIA's library tells how GPUs are used.", [
      { value: Number(gpusUnknown === undefined) },
    ]),
    of("size", "Memory of the device.", ({ totalBytes }) => totalBytes),
    of("used", "Memory of the device that is in use.", ({ usedBytes }) => usedBytes),
    of(
      "other",
      "Memory in use by anything but the hub's objects.",
      ({ othersBytes }) => othersBytes,
    ),
  ];
}

/** Memory of the objects that this user may see. */
export function heldMetrics(
  { objects }: Snapshot,
  { own: devices }: Chosen<WatchedDevice>,
): Family[] {
  const unheld = objects.filter(({ leases }) => leases === 0);
  const bytes = new Map<string, number>();
  for (const object of unheld)
    bytes.set(object.device, (bytes.get(object.device) ?? 0) + removalOf(object).bytes);
  return [
    gauge(
      "held_bytes",
      "Memory that objects of the hub hold on the device.",
      devices.map(({ device, heldBytes }) => ({ labels: deviceLabels(device), value: heldBytes })),
    ),
    gauge("unheld_objects", "Pinned objects that no process holds.", [{ value: unheld.length }]),
    gauge(
      "unheld_bytes",
      "Memory that `cuda-ipc gc` would free.",
      devices.map(({ device }) => ({
        labels: deviceLabels(device),
        value: bytes.get(device) ?? 0,
      })),
    ),
  ];
}

export function gauge(name: string, help: string, samples: Family["samples"]): Family {
  return { name: `cuda_ipc_${name}`, type: "gauge", help, samples };
}

export function counter(name: string, help: string, samples: Family["samples"]): Family {
  return { name: `cuda_ipc_${name}_total`, type: "counter", help, samples };
}

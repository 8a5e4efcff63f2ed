/**
 * A snapshot as Prometheus' text. The number of time series is bounded: the hub may have 100,000
 * objects. `cuda_ipc_series_left_out` says how many of each kind have none of their own.
 */
import { linkNameOf } from "../../service/service-names.js";
import { ratesBetween } from "../rates.js";
import type { Snapshot } from "../snapshot.js";
import {
  bytesOfServices,
  channelMetrics,
  ownChannels,
  readerMetrics,
  readersOf,
  serviceMetrics,
} from "./channel-metrics.js";
import { exposition, type Family } from "./exposition.js";
import { deviceMetrics, gauge, heldMetrics, hubMetrics, upMetrics } from "./hub-metrics.js";
import {
  largestFirst,
  objectMetrics,
  oldestFirst,
  programMetrics,
  programsOf,
} from "./object-metrics.js";
import { firstOf } from "./own-series.js";

/** Give it each snapshot once, in order: counters of services grow from one to the next. */
export class MetricsText {
  readonly #answers = new Map<string, number>();
  #earlier: Snapshot | undefined;

  /** @param tookMs how long the look took */
  of(snapshot: Snapshot, tookMs?: number): string {
    this.#count(snapshot);
    const took = gauge("look_duration_seconds", "How long it took to look at hub and devices.", [
      tookMs === undefined ? undefined : { value: tookMs / 1000 },
    ]);
    return exposition([...this.#families(snapshot), took]);
  }

  /** WHY not `answered`: it shrinks with each link that ends, and counters must not shrink. */
  #count(snapshot: Snapshot): void {
    const earlier = this.#earlier ?? { ...snapshot, channels: [], services: [], monotonicMs: 0 };
    const { ms, services } = ratesBetween(earlier, snapshot);
    this.#earlier = snapshot;
    for (const name of this.#answers.keys()) if (!services.has(name)) this.#answers.delete(name);
    for (const [name, { answers }] of services)
      this.#answers.set(name, (this.#answers.get(name) ?? 0) + Math.round((answers * ms) / 1000));
  }

  #families(snapshot: Snapshot): Family[] {
    const { hub, objects } = snapshot;
    // The host and the GPUs of this machine come first. Others are what clients claim.
    const devices = firstOf(snapshot.devices, () => 0);
    const always = [...upMetrics(snapshot), ...deviceMetrics(snapshot, devices)];
    // Everything else is what was known before.
    if (!hub.answers || hub.status === undefined) return always;
    const programs = firstOf(programsOf(snapshot), oldestFirst);
    const ofServices = (name: string) => linkNameOf(name) !== undefined;
    // WHY not those of services: each link has two channels with random names.
    const largest = firstOf(
      objects.filter(({ name }) => !ofServices(name)),
      largestFirst,
    );
    const byNumber = (one: { object: number }, other: { object: number }) =>
      one.object - other.object;
    const channels = firstOf(ownChannels(snapshot, ofServices), byNumber);
    const readers = firstOf(readersOf(channels.own, objects), () => 0);
    const services = firstOf(snapshot.services, () => 0);
    const unreadable = snapshot.channels.filter((channel) => channel.unreadable !== undefined);
    const leftOut = {
      device: devices,
      object: largest,
      program: programs,
      channel: channels,
      reader: readers,
      service: services,
    };
    return [
      ...always,
      ...hubMetrics(hub.status),
      ...heldMetrics(snapshot, devices),
      ...objectMetrics(largest),
      ...programMetrics(programs),
      ...channelMetrics(channels),
      ...readerMetrics(readers),
      ...serviceMetrics(services, {
        answers: (name) => this.#answers.get(name) ?? 0,
        bytes: bytesOfServices(objects),
      }),
      gauge("channels_unreadable", "Channels that this exporter cannot read.", [
        { value: unreadable.length },
      ]),
      gauge(
        "series_left_out",
        "How many have no time series of their own, because there are too many.",
        Object.entries(leftOut).map(([of, chosen]) => ({
          labels: { of },
          value: chosen.leftOut.length,
        })),
      ),
    ];
  }
}

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { limits } from "../../../../src/base/limits.js";
import { MetricsText } from "../../../../src/watch/metrics/metrics-text.js";
import type { Snapshot } from "../../../../src/watch/snapshot.js";
import { results } from "../../../support/messages.js";
import { snapshotOf, watchedChannel, watchedClient, watchedObject } from "../samples.js";

const GPU = "GPU-6f2b1c1e-0000-4000-8000-0123456789ab";
const [status] = results.status;

function answering(changes: Partial<Snapshot> = {}): Snapshot {
  const snapshot = snapshotOf(changes);
  return { ...snapshot, hub: { ...snapshot.hub, status } };
}

/** The value of the one time series with these labels. */
function sampleOf(text: string, name: string, ...labels: string[]): number {
  const found = text
    .split("\n")
    .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
    .filter((line) => labels.every((label) => line.includes(label)));
  assert.equal(found.length, 1, `${name} ${labels}: ${found.join("\n")}`);
  return Number(found[0]?.split(" ").at(-1));
}

const seriesOf = (text: string, name: string) =>
  text.split("\n").filter((line) => line.startsWith(`${name}{`)).length;

describe("the metrics of a snapshot", () => {
  it("have memory by GPU with the label UUID, and of each object", () => {
    const device = {
      device: GPU,
      model: "NVIDIA H200",
      totalBytes: 1000,
      usedBytes: 800,
      heldBytes: 500,
      othersBytes: 300,
      processes: [],
    };
    const held = watchedObject({ name: "weights", device: GPU, heldBytes: 500, leases: 2 });
    const text = new MetricsText().of(answering({ devices: [device], objects: [held] }));
    const labels = ['device="gpu"', `UUID="${GPU}"`];
    assert.equal(sampleOf(text, "cuda_ipc_device_memory_size_bytes", ...labels), 1000);
    assert.equal(sampleOf(text, "cuda_ipc_device_memory_used_bytes", ...labels), 800);
    assert.equal(sampleOf(text, "cuda_ipc_device_memory_other_bytes", ...labels), 300);
    assert.equal(sampleOf(text, "cuda_ipc_held_bytes", ...labels), 500);
    assert.equal(sampleOf(text, "cuda_ipc_object_bytes", 'name="weights"', ...labels), 500);
    assert.equal(sampleOf(text, "cuda_ipc_object_leases", 'name="weights"'), 2);
    assert.equal(
      sampleOf(text, "cuda_ipc_object_created_timestamp_seconds", 'name="weights"'),
      1_700_000_000,
    );
  });

  it("say which reader of a channel is behind, with its program and process", () => {
    const channel = watchedChannel();
    const [producer] = watchedObject().holders;
    const reader = {
      pid: 9,
      program: "slow.py",
      access: "read",
      role: "reader",
      place: 0,
    } as const;
    const holders = [{ ...reader, session: 4, sinceMs: 0 }, ...(producer ? [producer] : [])];
    const object = watchedObject({ object: 2, name: "numbers", holders });
    const text = new MetricsText().of(answering({ objects: [object], channels: [channel] }));
    assert.equal(sampleOf(text, "cuda_ipc_channel_messages_total", 'channel="numbers"'), 100);
    assert.equal(sampleOf(text, "cuda_ipc_channel_dropped_messages_total"), 3);
    const who = ['seat="0"', 'program="slow.py"', 'pid="9"'];
    assert.equal(sampleOf(text, "cuda_ipc_channel_reader_behind_messages", ...who), 2);
    assert.equal(sampleOf(text, "cuda_ipc_channel_reader_received_messages_total", ...who), 98);
  });

  it("sum clients by program and user", () => {
    const clients = [
      watchedClient({ session: 1, hostBytes: 1, deviceBytes: 10 }),
      watchedClient({ session: 2, hostBytes: 2, deviceBytes: 20, leases: 3 }),
      watchedClient({ session: 3, user: "bob", hostBytes: 4 }),
    ];
    const text = new MetricsText().of(answering({ clients }));
    const alice = ['program="producer"', 'user="alice"'];
    assert.equal(sampleOf(text, "cuda_ipc_program_clients", ...alice), 2);
    assert.equal(sampleOf(text, "cuda_ipc_program_leases", ...alice), 4);
    assert.equal(sampleOf(text, "cuda_ipc_program_memory_bytes", ...alice, 'device="host"'), 3);
    assert.equal(sampleOf(text, "cuda_ipc_program_memory_bytes", ...alice, 'device="gpu"'), 30);
  });

  it("have what gc would free", () => {
    const objects = [watchedObject(), watchedObject({ object: 3, leases: 0, unheldSinceMs: 5 })];
    const host = { device: "host", model: undefined, totalBytes: 1, usedBytes: 1 } as const;
    const devices = [{ ...host, heldBytes: 8192, othersBytes: 0, processes: [] }];
    const text = new MetricsText().of(answering({ objects, devices }));
    assert.equal(sampleOf(text, "cuda_ipc_unheld_objects"), 1);
    const { allocationByteLength } = watchedObject().descriptor;
    assert.equal(sampleOf(text, "cuda_ipc_unheld_bytes", 'device="host"'), allocationByteLength);
  });

  it("have no more devices than a limit, whatever clients claim", () => {
    const max = limits.metricsSeriesMax;
    const claimed = Array.from({ length: max + 4 }, (_, index) => `GPU-${index}`);
    const objects = claimed.map((device, index) =>
      watchedObject({ object: index + 1, device, leases: 0, unheldSinceMs: 5 }),
    );
    const unknown = { model: undefined, totalBytes: undefined, usedBytes: undefined };
    const devices = ["host", ...claimed].map((device) => {
      return { ...unknown, device, heldBytes: 1, othersBytes: undefined, processes: [] };
    });
    const text = new MetricsText().of(answering({ objects, devices }));
    assert.equal(seriesOf(text, "cuda_ipc_held_bytes"), max);
    assert.equal(seriesOf(text, "cuda_ipc_unheld_bytes"), max);
    assert.equal(sampleOf(text, "cuda_ipc_held_bytes", 'device="host"'), 1);
    assert.equal(sampleOf(text, "cuda_ipc_series_left_out", 'of="device"'), 5);
  });

  it("have one time series for programs whose names differ in no character of UTF-8", () => {
    const clients = ["\ud800", "\udfff"].map((program, session) =>
      watchedClient({ session, program }),
    );
    const text = new MetricsText().of(answering({ clients }));
    assert.equal(seriesOf(text, "cuda_ipc_program_clients"), 1);
    assert.equal(sampleOf(text, "cuda_ipc_program_clients", 'program="\ufffd"'), 2);
  });

  it("have one time series for programs whose names are shown alike", () => {
    const clients = ["a\u001b[2J", "a\\u001b[2J"].map((program, session) =>
      watchedClient({ session, program }),
    );
    const text = new MetricsText().of(answering({ clients }));
    assert.equal(seriesOf(text, "cuda_ipc_program_clients"), 1);
    assert.ok(!text.includes("\u001b"), text);
  });

  it("give the largest objects time series of their own, and say what they left out", () => {
    const max = limits.metricsSeriesMax;
    const objects = Array.from({ length: max + 5 }, (_, index) =>
      watchedObject({ object: index + 1, name: `o${index}`, heldBytes: index < 5 ? 10 : 20 }),
    );
    const channels = objects.map(({ object, name }) => watchedChannel({ object, name }));
    const clients = objects.map(({ name }) => watchedClient({ program: name }));
    const services = objects.map(({ name }) => ({
      name,
      workers: 1,
      links: 0,
      offers: 0,
      underWay: 0,
      answered: 0,
      latency: undefined,
      replyChannels: [],
      offerChannels: [],
    }));
    const text = new MetricsText().of(answering({ objects, channels, clients, services }));
    assert.equal(seriesOf(text, "cuda_ipc_object_bytes"), max);
    assert.ok(!text.includes('name="o4"') && text.includes('name="o5"'), "the smallest are out");
    assert.equal(sampleOf(text, "cuda_ipc_objects_left_out_bytes"), 50);
    for (const [of, name] of [
      ["object", "object_bytes"],
      ["channel", "channel_messages_total"],
      ["reader", "channel_reader_behind_messages"],
      ["service", "service_workers"],
      ["program", "program_clients"],
    ] as const) {
      assert.equal(seriesOf(text, `cuda_ipc_${name}`), max);
      const left = of === "reader" ? 0 : 5;
      assert.equal(sampleOf(text, "cuda_ipc_series_left_out", `of="${of}"`), left, of);
    }
  });

  it("show services as such, and not their channels", () => {
    const link = { object: 5, name: "echo:wabc:0", readers: [] };
    const channels = [watchedChannel(link), watchedChannel({ ...link, name: "echo:wabc:0:req" })];
    const objects = channels.map(({ name }) => watchedObject({ name, heldBytes: 100 }));
    const service = {
      name: "echo",
      workers: 1,
      links: 1,
      offers: 0,
      underWay: 0,
      answered: 0,
      latency: undefined,
      replyChannels: [5],
      offerChannels: [],
    };
    const text = new MetricsText().of(answering({ channels, objects, services: [service] }));
    assert.equal(seriesOf(text, "cuda_ipc_channel_messages_total"), 0);
    assert.equal(seriesOf(text, "cuda_ipc_object_bytes"), 0);
    assert.equal(sampleOf(text, "cuda_ipc_service_memory_bytes", 'service="echo"'), 200);
  });

  it("count the answers of a service up, also when a link ends", () => {
    const metrics = new MetricsText();
    const answers = (links: readonly (readonly [object: number, committed: number])[]) => {
      atMs += 1000;
      const channels = links.map(([object, committed]) =>
        watchedChannel({ object, name: `echo:w1:${object}`, committed }),
      );
      const service = {
        name: "echo",
        workers: 1,
        links: links.length,
        offers: 0,
        underWay: 0,
        answered: 0,
        latency: { count: 1, medianMs: 2, maxMs: 4 },
        replyChannels: links.map(([object]) => object),
        offerChannels: [],
      };
      const text = metrics.of(answering({ monotonicMs: atMs, channels, services: [service] }));
      assert.equal(sampleOf(text, "cuda_ipc_service_latency_median_seconds"), 0.002);
      return sampleOf(text, "cuda_ipc_service_answers_total", 'service="echo"');
    };
    let atMs = 0;
    // The first message of each link is no answer.
    assert.equal(answers([[1, 11]]), 10);
    assert.equal(
      answers([
        [1, 21],
        [2, 6],
      ]),
      25,
    );
    assert.equal(answers([[2, 6]]), 25);
    assert.equal(answers([[2, 8]]), 27);
  });

  it("of a hub that does not answer say so, and nothing that may be out of date", () => {
    const metrics = new MetricsText();
    const known = answering({ objects: [watchedObject()] });
    assert.equal(sampleOf(metrics.of(known), "cuda_ipc_up"), 1);
    const text = metrics.of({ ...known, hub: { ...known.hub, answers: false, successors: 2 } });
    assert.equal(sampleOf(text, "cuda_ipc_up"), 0);
    assert.equal(sampleOf(text, "cuda_ipc_hub_restarts_total"), 2);
    assert.doesNotMatch(text, /cuda_ipc_object/);
  });
});

/**
 * What may end without loss. The producer is ended by force: its readers still read every byte, and others open its array by name.
 * The hub is ended by force: its clients start the next one and are there as before.
 */
import type { HubStatus } from "../hub-facts.js";
import { durationWords, plural } from "../words.js";
import { ARRAY_NAME, producedValue } from "./actor-messages.js";
import type { ActorProcess } from "./actor-process.js";
import { verifyArray } from "./array-content.js";
import type { Stage } from "./stage.js";

export async function crashDemo(stage: Stage): Promise<void> {
  const holder = stage.start("reader", "consumer");
  const latecomer = stage.start("reader", "latecomer");
  await killProducer(stage, holder, latecomer);
  await readAll("first", [holder, latecomer]);
  await killHub(stage);
  await openByName(stage);
  await readAll("second", [holder, latecomer]);
  await Promise.all([holder.finished(), latecomer.finished()]);
  stage.sayHub("keeps 0 objects: nothing is left", await stage.hubStatus(({ objects }) => objects === 0));
}

async function killProducer(stage: Stage, holder: ActorProcess, latecomer: ActorProcess): Promise<void> {
  const producer = stage.start("producer");
  await Promise.all([producer.reached("published"), holder.reached("ready"), latecomer.reached("ready")]);
  holder.tell("open");
  await holder.reached("holding");

  const startMs = performance.now();
  await producer.kill();
  stage.say("producer", producer.pid, "ended by SIGKILL, without a chance to clean up");
  const after = await stage.hubStatus(({ leases }) => leases === 1);
  const kept = `keeps ${plural(after.objects, "object")} for the one who holds it`;
  stage.sayHub(`noticed; ${kept}, ${since(startMs)} after the signal`, after);
  latecomer.tell("open");
  await latecomer.reached("holding");
}

async function killHub(stage: Stage): Promise<void> {
  const before = await stage.hubStatus(() => true);
  const startMs = performance.now();
  process.kill(before.pid, "SIGKILL");
  stage.sayHub("ended by SIGKILL, with the only table of names and leases", before);
  const after = await stage.hubStatus((status) => status.pid !== before.pid && isAsBefore(status, before));
  stage.sayHub(`started by a client; all have come back to it within ${since(startMs)}: ${countWords(after)}`, after);
}

/** Names and leases are those of before, and nobody and nothing is still to come. */
function isAsBefore(status: HubStatus, before: HubStatus): boolean {
  const { objects, leases, clients, withoutMemory } = status;
  const isWhole = withoutMemory === 0 && objects === before.objects;
  return isWhole && leases === before.leases && clients === before.clients;
}

/** At the hub that never saw its producer. */
async function openByName(stage: Stage): Promise<void> {
  const startMs = performance.now();
  using array = await stage.hub.open(ARRAY_NAME, { signal: stage.signal });
  const took = since(startMs);
  await verifyArray(array.expectDType("float32"), producedValue);
  stage.say(
    "demo",
    process.pid,
    `opened "${ARRAY_NAME}" by its name in ${took}: its memory came back with its holders`,
  );
}

async function readAll(time: string, readers: readonly ActorProcess[]): Promise<void> {
  for (const reader of readers) {
    reader.tell(`read, ${time} time`);
    await reader.reached(`verified, ${time} time`);
  }
}

function countWords({ objects, leases }: HubStatus): string {
  return `${plural(objects, "object")} and ${plural(leases, "lease")} as before`;
}

function since(startMs: number): string {
  return durationWords(performance.now() - startMs);
}

/**
 * The demo `crash`. It kills the producer: readers still read every byte, and others open the array
 * by name. Then it kills the hub: its clients start the next one, and nothing is lost.
 */
import type { HubStatus } from "../join-hub.js";
import { durationWords, plural } from "../terminal/words.js";
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
  stage.sayHub(
    "keeps 0 objects: nothing is left",
    await stage.hubStatus(({ objects }) => objects === 0),
  );
}

async function killProducer(
  stage: Stage,
  holder: ActorProcess,
  latecomer: ActorProcess,
): Promise<void> {
  const producer = stage.start("producer");
  await Promise.all([
    producer.reached("published"),
    holder.reached("ready"),
    latecomer.reached("ready"),
  ]);
  holder.tell("open");
  await holder.reached("holding");

  const startMs = performance.now();
  await producer.kill();
  stage.say("producer", producer.pid, "killed by SIGKILL, without a chance to clean up");
  const after = await stage.hubStatus(({ leases }) => leases === 1);
  const kept = `still keeps ${plural(after.objects, "object")} for its reader`;
  stage.sayHub(`noticed within ${since(startMs)}, and ${kept}`, after);
  latecomer.tell("open");
  await latecomer.reached("holding");
}

async function killHub(stage: Stage): Promise<void> {
  const before = await stage.hubStatus(() => true);
  const startMs = performance.now();
  process.kill(before.pid, "SIGKILL");
  stage.sayHub("killed by SIGKILL, with the only table of names and leases", before);
  const after = await stage.hubStatus(
    (status) => status.pid !== before.pid && isAsBefore(status, before),
  );
  stage.sayHub(
    `started by a client; all clients reconnected within ${since(startMs)}: ${countWords(after)}`,
    after,
  );
}

/** Whether all clients, names and leases are back, and all objects have their memory. */
function isAsBefore(status: HubStatus, before: HubStatus): boolean {
  const { objects, leases, clients, withoutMemory } = status;
  const isWhole = withoutMemory === 0 && objects === before.objects;
  return isWhole && leases === before.leases && clients === before.clients;
}

/** Opens the array at the new hub, which never saw its producer. */
async function openByName(stage: Stage): Promise<void> {
  const startMs = performance.now();
  using array = await stage.hub.open(ARRAY_NAME, { signal: stage.signal });
  const took = since(startMs);
  await verifyArray(array.expectDType("float32"), producedValue);
  stage.say(
    "demo",
    process.pid,
    `opened "${ARRAY_NAME}" by name in ${took}: the new hub has its memory`,
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

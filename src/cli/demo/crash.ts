/** The producer is ended by force; who holds its array still reads every byte, and who comes later opens it by name. */
import { plural } from "../words.js";
import type { Stage } from "./stage.js";

export async function crashDemo(stage: Stage): Promise<void> {
  const producer = stage.start("producer");
  const holder = stage.start("reader", "consumer");
  const latecomer = stage.start("reader", "latecomer");
  await Promise.all([producer.reached("published"), holder.reached("ready"), latecomer.reached("ready")]);
  holder.tell("open");
  await holder.reached("holding");

  await producer.kill();
  stage.say("producer", producer.pid, "ended by SIGKILL, without a chance to clean up");
  const after = await stage.hubStatus(({ leases }) => leases === 1);
  stage.sayHub(`noticed; keeps ${plural(after.objects, "object")} for the one who holds it`, after);

  latecomer.tell("open");
  await latecomer.reached("holding");
  for (const reader of [holder, latecomer]) {
    reader.tell("read");
    await reader.reached("verified");
  }
  await Promise.all([holder.finished(), latecomer.finished()]);
  stage.sayHub("keeps 0 objects: nothing is left", await stage.hubStatus(({ objects }) => objects === 0));
}

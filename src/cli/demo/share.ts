/** The demo without a name: one process makes an array, another opens it by name, turns it in place, and the first one sees it. */
import type { Stage } from "./stage.js";

export async function shareDemo(stage: Stage): Promise<void> {
  const producer = stage.start("producer");
  const consumer = stage.start("consumer");
  await Promise.all([producer.reached("published"), consumer.reached("ready")]);
  consumer.tell("open");
  await consumer.reached("turned");
  producer.tell("verify");
  await producer.reached("verified");
  await Promise.all([producer.finished(), consumer.finished()]);
  stage.sayHub("keeps 0 objects: nothing is left", await stage.hubStatus(({ objects }) => objects === 0));
}

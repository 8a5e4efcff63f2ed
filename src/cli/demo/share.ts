/**
 * The demo `share`, which is the default. One process creates an array. Another opens it by name
 * and changes it in place. The first one sees the change.
 */
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
  stage.sayHub(
    "keeps 0 objects: nothing is left",
    await stage.hubStatus(({ objects }) => objects === 0),
  );
}

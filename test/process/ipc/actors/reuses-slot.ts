// Prints the handle of an event of the host driver. When told, it destroys the event, makes another
// in the same slot, and prints its handle.
import { createHostDriver } from "../../../../src/driver/host/host-driver.js";
import { say, told } from "../../../support/actor-side.js";

const driver = createHostDriver();
const handleOf = (event: ReturnType<typeof driver.createEvent>) =>
  Buffer.from(driver.exportEvent(event)).toString("base64");

// WHY one more: the arena ends with its last event, and its slot would not be reused.
const kept = driver.createEvent(0);
const first = driver.createEvent(0);
say(handleOf(first));
await told();
driver.destroyEvent(first);
const second = driver.createEvent(0);
say(handleOf(second));
await told();
driver.destroyEvent(second);
driver.destroyEvent(kept);
driver.close();

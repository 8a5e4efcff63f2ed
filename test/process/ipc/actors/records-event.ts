// Says the descriptor of an event that is not recorded; records it behind a wait, and says it again; lets the wait end, and says so;
// closes the event, records another, and says that one. Goes on each time it is told to. Argument: device.
import { Device } from "../../../../src/index.js";
import { Mapping } from "../../../../src/os/mapping.js";
import { createMemoryFile } from "../../../../src/os/memory-file.js";
import { argument, say, told } from "../../../support/actor-side.js";

const device = Device.open(argument(0));
const { driver, ordinal } = device;
const file = createMemoryFile("words", 4096);
const mapping = Mapping.shared(file, 4096, "read-write");
const words = new BigInt64Array(mapping.view(0, 4096).buffer);
const word = driver.registerHostMemory(ordinal, mapping.address, 4096, "read-write");
const stream = device.createStream();

const event = device.createEvent({ label: "of the actor" });
say(event.export());
await told();
driver.waitWord(stream.handle, word, 1n);
event.record(stream);
say(event.export());
await told();
Atomics.store(words, 0, 1n);
// WHY the stream too: the libcuda in C goes on with a stream when it is asked for it.
await stream.synchronize();
await event.synchronize();
say("done");
await told();
event.close();
const next = device.createEvent();
next.record(stream);
await stream.synchronize();
say(next.export());
await told();
next.close();
stream.close();
driver.unregisterHostMemory(ordinal, mapping.address);
mapping.close();
file.close();
device.close();

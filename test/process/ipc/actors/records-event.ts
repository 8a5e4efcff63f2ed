// Prints the descriptor of an unrecorded event. Records the event behind a wait, and prints the
// descriptor again. Ends the wait and prints "done". Then closes the event, records another, and
// prints that one. It continues on each input line. Argument: device.
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
// WHY also the stream: the libcuda in C continues a stream only when asked about it.
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

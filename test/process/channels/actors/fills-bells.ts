// Clears O_NONBLOCK of its channel's bells and fills them, repeatedly until it is killed. As a
// reader it takes no part and claims a new sleep for each message. As the writer it creates the
// channel and writes nothing. Arguments: socket, name, "reader" or "writer".
import { readdirSync, readlinkSync } from "node:fs";
import { connect } from "../../../../src/client/connect.js";
import { page, readerModes, readerStates } from "../../../../src/ring/channel-layout.js";
import { argument, say } from "../../../support/actor-side.js";
import { ChannelClient, smallWord, writeSmallWord } from "../../../support/channel-client.js";
import { fillBell } from "../../../support/waiting-fds.js";

const SMALL = { dtype: "uint32", shape: [64], slots: 2, readersMax: 3 } as const;

const [socket, name, role] = [0, 1, 2].map(argument) as [string, string, string];
const kept: unknown[] = [];
const [bells, again] = role === "reader" ? await asReader() : await asWriter();
for (const bell of bells) fillBell(bell);
say({ bells: bells.length });
setInterval(() => {
  again();
  for (const bell of bells) fillBell(bell);
}, 1);

async function asReader(): Promise<[number[], () => void]> {
  const client = await ChannelClient.connect(socket);
  const channel = await client.open(name, "reader", true);
  kept.push(client, channel);
  const file = channel.page();
  writeSmallWord(file, page.mode, readerModes.lossy);
  writeSmallWord(file, page.state, readerStates.attached);
  const sleep = () => writeSmallWord(file, page.asleep, (smallWord(file, page.asleep) + 2) | 1);
  sleep();
  return [[channel.roomBell.number, channel.bell().number], sleep];
}

async function asWriter(): Promise<[number[], () => void]> {
  const hub = await connect({ socket, start: false, device: "host" });
  // WHY first: some eventfds of the library are opened only once and are no bells of the channel.
  kept.push(hub, await hub.createChannel(`${name}-first`, SMALL));
  const before = new Set(eventFds());
  kept.push(await hub.createChannel(name, SMALL));
  return [eventFds().filter((fd) => !before.has(fd)), () => {}];
}

function eventFds(): number[] {
  return readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`) === "anon_inode:[eventfd]" ? [Number(fd)] : [];
    } catch {
      // The descriptor of the folder itself, which is closed by now.
      return [];
    }
  });
}

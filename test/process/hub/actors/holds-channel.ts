// Creates a channel, or opens one in a role, and prints the result. Holds it until the next
// command, and then closes its handle. The command "close" makes a writer end the channel first.
// Arguments: socket, name, "create" or the role, options of a new channel in JSON.

import { control, page, readerStates, writerStates } from "../../../../src/ring/channel-layout.js";
import type { ChannelContent, ChannelRole } from "../../../../src/wire/channel-content.js";
import { argument, say, told } from "../../../support/actor-side.js";
import { ChannelClient, writeSmallWord, writeWord } from "../../../support/channel-client.js";

const [socket, name, as, changes] = [0, 1, 2, 3].map(argument) as [string, string, string, string];
await using client = await ChannelClient.connect(socket);
using channel =
  as === "create"
    ? await client.create(name, JSON.parse(changes) as Partial<ChannelContent>)
    : await client.open(name, as as ChannelRole, true);
if (channel.role === "reader") {
  writeWord(channel.page(), page.done, 5n);
  writeSmallWord(channel.page(), page.state, readerStates.attached);
}
if (channel.role === "writer") {
  writeSmallWord(channel.control, control.epoch, 1);
  writeWord(channel.control, control.ready + 64, 7n);
  writeSmallWord(channel.control, control.state, writerStates.open);
}
say({ lease: channel.lease, place: channel.seat ?? null });
if ((await told()) === "close") writeSmallWord(channel.control, control.state, writerStates.closed);

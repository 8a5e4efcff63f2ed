/** The calls that a bridge answers over a link. Both sides of a link answer calls. */
import type { ChannelReader } from "../../channel/channel-reader.js";
import type { MoreMessages } from "../../wire/carried-frames.js";
import type { LinkCall } from "../../wire/link-messages.js";

export interface LinkServer {
  /** Answers a call. What it throws is sent as the answer. */
  answer(call: LinkCall): Promise<unknown>;
  /** The other side asks for more messages of a read. What it throws ends the link. */
  more(asked: MoreMessages): void;
  /**
   * Lets the other side read a channel, and takes it over. Returns its number on the link.
   * @throws CLOSED if the link has ended
   */
  lend(lent: LentReader): number;
  /** Ends a loan, if it has not ended. */
  takeBack(channel: number): void;
}

/** A channel that the other side reads. */
export interface LentReader {
  readonly reader: ChannelReader;
  /** Changes the meta of a message before it is sent. */
  readonly metaOf?: ((meta: Uint8Array) => Uint8Array) | undefined;
  /** Called once, when the other side leaves it or the link ends. */
  close(): void;
}

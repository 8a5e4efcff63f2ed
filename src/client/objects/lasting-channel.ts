/** Writers and readers of channels as what a handle closes. */
import type { CudaIpcError } from "../../base/errors.js";
import type { ReaderParts, WriterParts } from "../../channel/channel-parts.js";
import type { ChannelReader } from "../../channel/channel-reader.js";
import type { ChannelWriter } from "../../channel/channel-writer.js";
import type { Lasting } from "./shared-object.js";

export function lastingReader(reader: ChannelReader, { ending }: ReaderParts): Lasting {
  return {
    close: () => reader.close(),
    settle: () => reader.settle(),
    disconnect(reason: CudaIpcError) {
      ending.reason = reason;
      reader.close();
    },
  };
}

export function lastingWriter(writer: ChannelWriter, { ending, words }: WriterParts): Lasting {
  return {
    close: () => writer.close(),
    settle: () => writer.settle(),
    disconnect(reason: CudaIpcError) {
      ending.reason = reason;
      // As after a death: the channel waits for the next writer, or ends.
      if (words.facts.whenWriterGone === "wait") writer.close();
      else writer.abandon();
    },
  };
}

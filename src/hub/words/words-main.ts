/**
 * The process that writes words into the memory of clients instead of the hub. A client can make
 * such a write wait for seconds. Then only this process waits, and no thread of the hub does.
 */
import type { Packet } from "../../os/seqpacket.js";
import { HubLine } from "../child/hub-line.js";
import { FileWords } from "./file-words.js";
import { decodeOrder, encodeAnswer } from "./word-messages.js";

const hub = new HubLine();
const words = new FileWords();
hub.serve((order) => hub.send(encodeAnswer(failureOf(order))));

function failureOf({ bytes, fds: [file], damage }: Packet): unknown {
  try {
    if (file === undefined) return damage ?? new Error("no descriptor came");
    words.write(file, decodeOrder(bytes));
    return undefined;
  } catch (error) {
    return error;
  } finally {
    file?.close();
  }
}

// What the peers share: the library, the socket, and lines of JSON both ways.
import { createInterface } from "node:readline";
import { connect } from "../../../build/src/bundled/index.js";

export const [socket, ...args] = process.argv.slice(2);
export const LIMIT = { timeoutMs: 60_000 };
export const say = (value) => console.log(JSON.stringify(value));
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
export const heard = async () => {
  const { value, done } = await lines.next();
  return done ? undefined : JSON.parse(value);
};
export const hub = await connect({ socket, device: "host", start: false });

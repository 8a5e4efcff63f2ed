/** The expected results of cells in which the producer is hit. */
import type { RoleExpectations } from "./expectation.js";

const REFUSED = "refused; nothing is left of it, and it works once there is room";

export const producerExpectations: RoleExpectations = {
  SIGKILL: {
    create: "its array is gone, the name is free; opens that wait for it go on waiting",
    publish: "published or not, never half; if not, it is gone, and opens that wait go on waiting",
    replace: "the name has the old array or the new one, never none; the old one stays readable",
    open: [
      "the open gets all of it, or waits for the next producer until its own time limit",
      ["ok", "TIMEOUT"],
    ],
    read: "the read gets every byte; the memory stays with its holders",
    write: "what it wrote is never seen; the name is free",
    close: "its death closes it; the consumer's close works",
    reconnect: "the consumer comes back and reads on; the leases of the dead end",
  },
  SIGSTOP: {
    create: "continues where it was; nobody else waits for it",
    publish: "continues where it was; others see it published or not",
    replace: "continues where it was; others open the old array or the new one",
    open: "the open works without it",
    read: "the read works without it",
    write: "continues where it was; nothing of it is seen meanwhile",
    close: "continues where it was; others are served meanwhile",
    reconnect: "comes back when it goes on, with all that it held",
  },
  "socket cut": {
    create: "comes back and creates it, once",
    publish: "comes back and publishes it, once",
    replace: "comes back and passes the name on, once",
    open: "comes back with its leases; the open works",
    read: "comes back with its leases; the read works",
    write: "comes back with its leases; the writing is whole",
    close: "the lease is given back, by the old connection or the next",
    reconnect: "comes back anyway, with all that it held",
  },
  "fd table full": {
    create: [`TOO_MANY_FDS: ${REFUSED}`, ["TOO_MANY_FDS"]],
    publish: "works: it needs no descriptor",
    replace: "works: it needs no descriptor",
    open: "the consumer's open works",
    read: "the consumer's read works",
    write: "works: it needs no descriptor",
    close: "works: it needs no descriptor",
    reconnect: [
      "comes back once there is room; its calls end with their time limit",
      ["ok", "TIMEOUT"],
    ],
  },
  "disk full": {
    create: [`DISK_FULL: ${REFUSED}`, ["DISK_FULL"]],
    publish: "works: it writes no file",
    replace: "works: it writes no file",
    open: "the consumer's open works",
    read: "the consumer's read works",
    write: "works: its memory is there already",
    close: "works: it writes no file",
    reconnect: "works: it writes no file",
  },
  "memory limit": {
    create: [`OUT_OF_MEMORY: ${REFUSED}`, ["OUT_OF_MEMORY"]],
    publish: "works: it needs no memory of the system",
    replace: "works: it needs no memory of the system",
    open: "the consumer's open works",
    read: "the consumer's read works",
    write: "works: it is mapped already",
    close: "works: it needs no memory of the system",
    reconnect: [
      "comes back once there is memory; its calls end with their time limit",
      ["ok", "TIMEOUT"],
    ],
  },
};

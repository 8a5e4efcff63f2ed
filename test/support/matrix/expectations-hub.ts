/** The expected results of cells in which the hub is hit. */
import type { RoleExpectations } from "./expectation.js";

const NO_ROOM =
  "refused; nothing is left of it, what is there stays, and it works once there is room";
const NAME_STAYS = "refused; the old array keeps the name, and it works once there is room";

export const hubExpectations: RoleExpectations = {
  SIGKILL: {
    create: "the call waits, and is answered by the next hub",
    publish: "the call waits, and is answered by the next hub; published once",
    replace: "the call waits, and is answered by the next hub; the name passes on once",
    open: "the call waits, and is answered by the next hub",
    read: "the read needs no hub",
    write: "the writing needs no hub",
    close: "what was closed is not held at the next hub",
    reconnect: "all come back to the next hub, with names, leases and memory as before",
  },
  SIGSTOP: {
    create: "the call waits, within its own time limit; works when the hub goes on",
    publish: "the call waits, within its own time limit; works when the hub goes on",
    replace: "the call waits, within its own time limit; works when the hub goes on",
    open: "the call waits, within its own time limit; works when the hub goes on",
    read: "the read needs no hub",
    write: "the writing needs no hub",
    close: "the memory is given back at once, the lease when the hub goes on",
    reconnect: "all come back when the hub goes on",
  },
  "socket cut": {
    create: "all come back; created once",
    publish: "all come back; published once",
    replace: "all come back; the name passes on once",
    open: "all come back; one lease",
    read: "all come back; the read needs no hub",
    write: "all come back; the writing needs no hub",
    close: "all come back; what was closed is not held",
    reconnect: "all come back anyway",
  },
  "fd table full": {
    create: [`TOO_MANY_FDS: ${NO_ROOM}`, ["TOO_MANY_FDS"]],
    publish: [
      "published; an open that waits is answered with TOO_MANY_FDS",
      ["ok"],
      ["TOO_MANY_FDS"],
    ],
    replace: "works: it needs no descriptor",
    open: [`TOO_MANY_FDS: ${NO_ROOM}`, ["TOO_MANY_FDS"]],
    read: "the read needs no hub",
    write: "the writing needs no hub",
    close: "works: it needs no descriptor",
    reconnect: [
      "a client that finds no room comes back once there is some; calls end with their time limit",
      ["ok", "TIMEOUT"],
    ],
  },
  "disk full": {
    create: [`DISK_FULL: ${NO_ROOM}`, ["DISK_FULL"]],
    publish: [
      "DISK_FULL: refused; opens that wait go on waiting, and it works once there is room",
      ["DISK_FULL"],
    ],
    replace: [`DISK_FULL: ${NAME_STAYS}`, ["DISK_FULL"]],
    open: [`DISK_FULL: ${NO_ROOM}`, ["DISK_FULL"]],
    read: "the read needs no hub",
    write: "the writing needs no hub",
    close: "works; the hub records it once there is room",
    reconnect: "all come back: nothing new must be recorded",
  },
  "memory limit": {
    create: [`OUT_OF_MEMORY: ${NO_ROOM}`, ["OUT_OF_MEMORY"]],
    publish: [
      "OUT_OF_MEMORY: refused; opens that wait go on waiting, and it works once there is room",
      ["OUT_OF_MEMORY"],
    ],
    replace: [`OUT_OF_MEMORY: ${NAME_STAYS}`, ["OUT_OF_MEMORY"]],
    open: [`OUT_OF_MEMORY: ${NO_ROOM}`, ["OUT_OF_MEMORY"]],
    read: "the read needs no hub",
    write: "the writing needs no hub",
    close: "works; the hub records it once there is room",
    reconnect: [
      "all come back once there is memory; calls end with their time limit",
      ["ok", "TIMEOUT"],
    ],
  },
};

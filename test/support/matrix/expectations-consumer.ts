/** The expected results of cells in which the consumer is hit. */
import type { RoleExpectations } from "./expectation.js";

const REFUSED = "refused; its lease goes back, and it works once there is room";

export const consumerExpectations: RoleExpectations = {
  SIGKILL: {
    create: "the producer's call works",
    publish: "the producer's call works",
    replace: "the producer's call works",
    open: "its lease ends with it; the array stays with the producer",
    read: "its lease ends with it; the array stays with the producer",
    write: "the producer's writing works",
    close: "its death closes it; nothing of the array is left",
    reconnect: "the producer comes back; the leases of the dead end",
  },
  SIGSTOP: {
    create: "the producer's call works meanwhile",
    publish: "the producer's call works meanwhile",
    replace: "the producer's call works meanwhile; the old array stays readable",
    open: "continues where it was, and gets all of it",
    read: "continues where it was, and reads all of it",
    write: "the producer's writing works meanwhile",
    close: "continues where it was; others are served meanwhile",
    reconnect: "comes back when it goes on, with all that it held",
  },
  "socket cut": {
    create: "comes back; the producer's call works",
    publish: "comes back; the producer's call works",
    replace: "comes back with the old array; the producer's call works",
    open: "comes back and opens it, with one lease",
    read: "comes back with its lease; the read works",
    write: "comes back; the producer's writing works",
    close: "the lease is given back, by the old connection or the next",
    reconnect: "comes back anyway, with all that it held",
  },
  "fd table full": {
    create: "the producer's call works",
    publish: "the producer's call works",
    replace: "the producer's call works; the old array stays readable",
    open: [`TOO_MANY_FDS: ${REFUSED}`, ["TOO_MANY_FDS"]],
    read: "works: it is mapped already",
    write: "the producer's writing works",
    close: "works: it needs no descriptor",
    reconnect: [
      "comes back once there is room; its calls end with their time limit",
      ["ok", "TIMEOUT"],
    ],
  },
  "disk full": {
    create: "the producer's call works",
    publish: "the producer's call works",
    replace: "the producer's call works; the old array stays readable",
    open: "works: it writes no file",
    read: "works: it writes no file",
    write: "the producer's writing works",
    close: "works: it writes no file",
    reconnect: "works: it writes no file",
  },
  "memory limit": {
    create: "the producer's call works",
    publish: "the producer's call works",
    replace: "the producer's call works; the old array stays readable",
    open: [`OUT_OF_MEMORY: ${REFUSED}`, ["OUT_OF_MEMORY"]],
    read: "works: it is mapped already",
    write: "the producer's writing works",
    close: "works: it needs no memory of the system",
    reconnect: [
      "comes back once there is memory; its calls end with their time limit",
      ["ok", "TIMEOUT"],
    ],
  },
};

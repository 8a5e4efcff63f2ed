/** What was removed from src for a moment, to see the matrix fail for each step and each fault. */

export interface Protection {
  /** The step or the fault. */
  readonly of: string;
  /** What the code did without the protection. */
  readonly removed: string;
  /** The names of cells that failed then. */
  readonly seenFailing: readonly string[];
}

export const protections: readonly Protection[] = [
  {
    of: "create",
    removed: "a client keeps the memory of a creation that was refused",
    seenFailing: ["hub, disk full, create", "hub, memory limit, create"],
  },
  {
    of: "publish",
    removed: "the hub publishes before it has recorded that",
    seenFailing: ["hub, disk full, publish", "hub, memory limit, publish"],
  },
  {
    of: "replace",
    removed: "the hub takes the old array's name before it has recorded who has it next",
    seenFailing: ["hub, disk full, replace", "hub, memory limit, replace"],
  },
  {
    of: "replace",
    removed: "the name is free from the creation of the new array to its publication",
    seenFailing: [
      "producer, SIGKILL, replace",
      "producer, SIGSTOP, replace",
      "hub, disk full, replace",
      "hub, memory limit, replace",
    ],
  },
  {
    of: "open",
    removed: "a client keeps the lease of an open whose import failed",
    seenFailing: ["consumer, memory limit, open"],
  },
  {
    of: "read",
    removed: "a client lets go of what it has mapped when its connection ends",
    seenFailing: ["hub, socket cut, read"],
  },
  {
    of: "write",
    removed: "the hub lets others open what is not published",
    seenFailing: ["producer, SIGKILL, write", "producer, SIGSTOP, write"],
  },
  {
    of: "close",
    removed: "a hub keeps leases that a reconnected client does not name",
    seenFailing: ["producer, socket cut, close", "consumer, socket cut, close"],
  },
  {
    of: "reconnect",
    removed: "a client that reconnects does not name what it holds",
    seenFailing: ["producer, socket cut, reconnect", "hub, socket cut, reconnect"],
  },
  {
    of: "SIGKILL",
    removed: "the hub does not act on the end of a process",
    seenFailing: [
      "producer, SIGKILL, create",
      "producer, SIGKILL, open",
      "producer, SIGKILL, close",
      "consumer, SIGKILL, open",
      "consumer, SIGKILL, close",
    ],
  },
  {
    of: "SIGKILL",
    removed: "the hub writes no journal",
    seenFailing: ["hub, SIGKILL, open", "hub, SIGKILL, close"],
  },
  {
    of: "SIGSTOP",
    removed: "a wait does not end at its time limit",
    seenFailing: ["hub, SIGSTOP, create", "hub, SIGSTOP, publish"],
  },
  {
    of: "socket cut",
    removed: "a client does not look for its hub again",
    seenFailing: [
      "producer, socket cut, create",
      "consumer, socket cut, open",
      "hub, socket cut, close",
    ],
  },
  {
    of: "fd table full",
    removed: "the hub does not answer a request whose descriptors were lost",
    seenFailing: ["hub, fd table full, create"],
  },
  {
    of: "disk full",
    removed: "the hub goes on if it cannot write its journal",
    seenFailing: ["hub, disk full, create", "hub, disk full, publish", "hub, disk full, open"],
  },
  {
    of: "disk full",
    removed: "the hub keeps the descriptor of an open that it could not record",
    seenFailing: ["hub, disk full, open"],
  },
  {
    of: "memory limit",
    removed: "a client gives up after one failed reconnect",
    seenFailing: ["producer, memory limit, reconnect", "consumer, memory limit, reconnect"],
  },
  {
    of: "memory limit",
    removed: "a lack of memory has no code of its own",
    seenFailing: ["producer, memory limit, create", "consumer, memory limit, open"],
  },
  {
    of: "SIGKILL, then hub restart",
    removed: "a hub gives nothing to the next keeper",
    seenFailing: [
      "keeper, SIGKILL, then hub restart, create",
      "keeper, SIGKILL, then hub restart, publish",
    ],
  },
  {
    of: "SIGKILL of its hub",
    removed: "a keeper keeps no memory",
    seenFailing: ["keeper, SIGKILL of its hub, create", "keeper, SIGKILL of its hub, publish"],
  },
];

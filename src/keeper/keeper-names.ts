/** The names of the keeper's own descriptors, which it passes to a hub beside the kept ones. */

/** The hub's end of the socket between them. */
export const KEEPER_SOCKET = "keeper";
/** A pidfd of the keeper. */
export const KEEPER_PROCESS = "keeper.pid";

/** A hub that makes way for the next one says this first. Otherwise its end counts as a crash. */
export const LEAVING = "LEAVING=1";

/** The numbers of the descriptors that a hub passes to its keeper. */
export const keeperFds = { socket: 3, hubSocket: 4, hub: 5 } as const;

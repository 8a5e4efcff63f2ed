/** What a keeper calls the descriptors that it passes to a hub beside those that it keeps. */

/** The hub's end of the socket between them. */
export const KEEPER_SOCKET = "keeper";
/** A pidfd of the keeper. */
export const KEEPER_PROCESS = "keeper.pid";

/** The numbers by which a hub passes a keeper what it needs. */
export const keeperFds = { socket: 3, hubSocket: 4, hub: 5 } as const;

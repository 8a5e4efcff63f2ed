/** Every limit of the project in one place, units last in the names. */

import { constants } from "node:buffer";

const KiB = 1024;
const MiB = 1024 * KiB;

export const limits = {
  /** One message on the hub's socket: its JSON text in UTF-8. */
  messageBytesMax: 64 * KiB,
  /** The kernel's own limit of descriptors in one SCM_RIGHTS control message. */
  scmRightsFdsMax: 253,
  /** Pieces of memory that grows in place: their descriptors fit into one message. */
  growingPiecesMax: 253,
  /** The path of a Unix socket, without its terminating zero. */
  socketPathBytesMax: 107,
  /** The name of a shared object, in UTF-8. */
  nameBytesMax: 255,
  /** Messages that may wait for a client that does not read, before its session is ended. */
  sendQueueMessagesMax: 1024,
  /** Messages that may wait for a hub whose gate passes them on. */
  gateQueueMessagesMax: 4096,
  /** Descriptors of one user that no process can close without waiting, before the hub takes none from that user. */
  unclosableFdsPerUserMax: 64,
  /** Descriptors of one user that a hub's gate keeps before that user's next ones wait for the next gate. */
  gateFdsPerUserMax: 256,
  /** Gates of a hub that may be about to end, each held up by what it has to close, before the next one has to wait. */
  endingGatesMax: 4,
  /** Replies that wait for a client that does not read, before the hub takes no more requests from it. */
  unreadBytesWhileServed: 64 * KiB,
  /** Clients that one hub has at a time: connected, or with something that they still hold. */
  hubClientsMax: 1024,
  /** Clients that a hub accepts before the event loop gets its turn, so that those who come do not hold up those who are there. */
  hubAcceptsPerTurn: 64,
  /** Connections that a hub has accepted and not admitted yet. Beyond it hangs up on the user who has most. */
  newClientsMax: 256,
  /** Objects that one hub keeps. */
  hubObjectsMax: 50_000,
  /** Leases of all clients of one hub. */
  hubLeasesMax: 100_000,
  /** Opens of all clients of one hub that wait for a name to be published. */
  hubWaitingOpensMax: 32_768,
  /** Replies of one hub that wait for clients that do not read them. */
  hubUnreadBytesMax: 64 * MiB,
  /** Objects that were lost and are still named by the hub. */
  lostObjectsMax: 100,
  /** Opens of one client that wait for a name to be published. */
  waitingOpensPerClientMax: 1024,
  /** Leases that one client holds at a time: one for each object that it created, and for each open. */
  leasesPerClientMax: 50_000,
  /** Replies that wait for one client before the hub hangs up on it. */
  unreadBytesPerClientMax: MiB,
  /** Descriptors that the hub sent to one client and that the client has not read yet; the next reply waits until it has. */
  unreadDescriptorsPerClientMax: 1024,
  /** The configuration file of a hub. */
  configFileBytesMax: MiB,
  /** Requests of one client that may wait for a hub that does not read, before the next is refused. */
  clientQueueMessagesMax: 100_000,
  /** Dimensions of an array. */
  dimensionsMax: 32,
  /** The index of a bundle, and so the header of a safetensors file that can be shared. */
  bundleIndexBytesMax: 64 * MiB,
  /** Arrays in one bundle. */
  bundleArraysMax: 1_000_000,
  /** Header of an .npy file; numpy itself refuses more than 10,000 bytes unless told otherwise. */
  npyHeaderBytesMax: 64 * KiB,
  /**
   * Header of a .safetensors file, and of all shards of a model together; the limit of the
   * reference implementation.
   */
  safetensorsHeaderBytesMax: 100_000_000,
  /** The index of a folder of .safetensors files. */
  shardIndexBytesMax: 64 * MiB,
  /** Files of one folder that are loaded as one bundle: all of them are open at a time. */
  shardsMax: 4096,
  /** The piece of a transfer that one lane works on at a time, and so the pinned memory of a lane. */
  stagingBytes: 4 * MiB,
  /** Lanes of one device: pieces of transfers that are under way at a time, and with `stagingBytes` its pinned memory. */
  transferLanes: 24,
  /** Clients that one socket between processes (descriptors, an offer, a group) serves at a time. */
  peerClientsMax: 1024,
  /** A request on such a socket: its JSON text in UTF-8. */
  peerRequestBytesMax: 4 * KiB,
  /** A file with the document of something shared. */
  handleFileBytesMax: 64 * KiB,
  /** Members of a group. */
  groupSizeMax: 256,
  /** What one member of a group gives to an all-gather: its JSON text in UTF-8. */
  gatherBytesMax: 64 * KiB,
  /** PTX, a cubin or a fatbin that is loaded, and the source that is compiled. */
  moduleBytesMax: 256 * MiB,
  /** What is kept of the log of the driver's or the run-time compiler. */
  compilerLogBytesMax: 16 * KiB,
  /** Parameters of one kernel. */
  kernelParametersMax: 1024,
  /** All parameters of one kernel together: CUDA's own limit since 12.1. */
  kernelParameterBytesMax: 32_764,
  /** Events of one device, those in its pool for reuse included. Drivers have room for some 20,000 shared ones in all processes. */
  eventsPerDeviceMax: 1000,
  /** Memory of the legacy mechanism and exported events that one device has at a time. */
  exportsPerDeviceMax: 131_072,
  /** Events of one driver of the host device. */
  hostEventsMax: 1024,
  /** Addresses that memory of another process may have this one reserve for its growth. */
  reservationBytesMax: 2 ** 44,
  /** One memory file of timelines, 64 bytes each. */
  timelineArenaBytes: 64 * KiB,
  /** Memory in which timelines of others may lie. */
  timelineMemoryBytesMax: MiB,
  /** Slots of a channel. */
  channelSlotsMax: 65_536,
  /** Readers that a channel has at a time: with all its descriptors it fits into one message. */
  channelReadersMax: 64,
  /** What goes with one message of a channel beside its data. */
  channelMetaBytesMax: 64 * KiB,
  /** The memory file that orders a channel, in which the headers and the meta bytes of all slots lie. */
  channelControlBytesMax: 256 * MiB,
  /** Requests that one client may have under way with one worker: each has a slot for itself and one for its cancellation. */
  serviceDepthMax: 256,
  /** Clients that one worker of a service takes at a time, and workers that one client uses. */
  serviceLinksMax: 1024,
  /** Requests that one worker works on at a time. */
  serviceConcurrencyMax: 4096,
  /** Requests of one client that wait for a worker. */
  serviceWaitingMax: 65_536,
  /** What a worker tells of a handler's error, and of how requests are made. */
  serviceReportBytesMax: KiB,
  /** Signals and waits that go to a stream in one batch; the driver's own limit. */
  streamBatchMax: 255,
  /** A longer view of memory would end the whole process: Node's own limit of a Buffer, 4 GiB on Node 20. */
  viewBytesMax: constants.MAX_LENGTH,
} as const;

export const defaults = {
  /** How long a request to the hub may take before the caller is told. */
  requestTimeoutMs: 30_000,
  /** How long a call that is out of time waits to be told by the hub what kept it waiting. */
  explanationMs: 250,
  /** How long connect() waits for a hub that it started. */
  hubStartTimeoutMs: 10_000,
  /** How long a client whose hub is gone looks for the next one before it gives up. */
  reconnectTimeoutMs: 30_000,
  /** How long a hub that starts keeps what a process holds that it cannot see, which may come back to it. */
  unseenClientMs: 30_000,
  /** How long a client that is closed while it has no connection tries to tell the hub so. */
  goodbyeTimeoutMs: 2000,
  /** How long the hub keeps the session of a worker thread that hung up and that the hub cannot see. */
  unseenThreadMs: 30_000,
  /** How long a hub that was started on demand stays without clients and pinned objects. */
  hubIdleMs: 30_000,
  /** How long the answer to `publish` waits until the object is kept for the next hub. */
  keptWaitMs: 500,
  /** How long a keeper may take nothing of what waits for it before another one takes its place. */
  keeperStuckMs: 3000,
  /** How long another process may take to answer, to appear, or to reach a barrier before the caller is told. */
  peerTimeoutMs: 30_000,
  /** How long a client that has taken a worker's offer may be silent before the worker makes another. */
  serviceClaimTimeoutMs: 10_000,
  /** How long a client that has workers goes without a look for new ones while it makes requests. */
  serviceLookAgainMs: 1000,
  /** How long a client of a socket between processes may be connected without saying what it wants. */
  peerSilenceMs: 10_000,
} as const;

/** All limits of the project. Units come last in the names. */

import { constants } from "node:buffer";

const KiB = 1024;
const MiB = 1024 * KiB;

export const limits = {
  /** One message on the hub's socket, as JSON in UTF-8. */
  messageBytesMax: 64 * KiB,
  /** Lists and objects in each other in a reply of the hub, with the reply itself. */
  jsonLevelsMax: 32,
  /** The kernel's limit of descriptors in one SCM_RIGHTS message. */
  scmRightsFdsMax: 253,
  /** Pieces of growing memory. Their descriptors fit into one message. */
  growingPiecesMax: 253,
  /** The path of a Unix socket, without its final zero byte. */
  socketPathBytesMax: 107,
  /** The name of a shared object, in UTF-8. */
  nameBytesMax: 255,
  /** Messages queued for a client that does not read, before its session ends. */
  sendQueueMessagesMax: 1024,
  /** Messages queued for a hub by its gate. */
  gateQueueMessagesMax: 4096,
  /** Descriptors of one user that may wait when they are closed, before the hub refuses more. */
  unclosableFdsPerUserMax: 64,
  /** Descriptors of one user in one gate. Further ones wait for the next gate. */
  gateFdsPerUserMax: 256,
  /** Gates that are ending but still close descriptors, before the next gate has to wait. */
  endingGatesMax: 4,
  /** Processes that write words into the memory of clients, before users wait for each other. */
  wordWritersMax: 8,
  /**
   * Writes into memory of one user that wait, before that user gets no more timelines and channels.
   * At most an eighth of the hub's open files.
   */
  unwrittenPerUserMax: 4096,
  /** Unread replies of one client, before the hub stops reading its requests. */
  unreadBytesWhileServed: 64 * KiB,
  /** Clients of one hub: connected, or with something that they still hold. */
  hubClientsMax: 1024,
  /**
   * Clients that a hub accepts in one turn of the event loop, so newcomers cannot starve the
   * others.
   */
  hubAcceptsPerTurn: 64,
  /**
   * Connections that a hub has accepted but not admitted. Beyond it the user with the most loses
   * one.
   */
  newClientsMax: 256,
  /** Objects in one hub. */
  hubObjectsMax: 50_000,
  /** Leases of all clients of one hub. */
  hubLeasesMax: 100_000,
  /** Opens of all clients of one hub that wait for a name to be published. */
  hubWaitingOpensMax: 32_768,
  /** The latest changes of objects that a hub remembers for watchers. */
  hubChangesKeptMax: 16_384,
  /** Remembered changes that one answer goes through. */
  changesPerPageMax: 4096,
  /** Unread replies of all clients of one hub. */
  hubUnreadBytesMax: 64 * MiB,
  /** Lost objects that the hub still lists. */
  lostObjectsMax: 100,
  /** Opens of one client that wait for a name to be published. */
  waitingOpensPerClientMax: 1024,
  /** Leases of one client: one for each object that it created, and one for each open. */
  leasesPerClientMax: 50_000,
  /** Unread replies of one client, before the hub ends its session. */
  unreadBytesPerClientMax: MiB,
  /** Descriptors sent to one client that it has not read yet. The next reply waits until it has. */
  unreadDescriptorsPerClientMax: 1024,
  /** The configuration file of a hub. */
  configFileBytesMax: MiB,
  /** Requests that a client queues for a hub that does not read. */
  clientQueueMessagesMax: 100_000,
  /** Dimensions of an array. */
  dimensionsMax: 32,
  /** The index of a bundle. A shared safetensors file has its header here. */
  bundleIndexBytesMax: 64 * MiB,
  /** Arrays in one bundle. */
  bundleArraysMax: 1_000_000,
  /** The header of an .npy file. By default numpy refuses more than 10,000 bytes. */
  npyHeaderBytesMax: 64 * KiB,
  /**
   * The header of a .safetensors file, and of all shards of a model together. The reference
   * implementation has the same limit.
   */
  safetensorsHeaderBytesMax: 100_000_000,
  /** The index of a folder of .safetensors files. */
  shardIndexBytesMax: 64 * MiB,
  /** Files in a folder that is loaded as one bundle. All are open at the same time. */
  shardsMax: 4096,
  /** The piece of a transfer that one lane works on, and the pinned memory of a lane. */
  stagingBytes: 4 * MiB,
  /** Lanes of one device: the pieces of transfers under way at a time. */
  transferLanes: 24,
  /** Clients of one socket between processes (descriptors, an offer, a group). */
  peerClientsMax: 1024,
  /** A request on such a socket, as JSON in UTF-8. */
  peerRequestBytesMax: 4 * KiB,
  /** A file with the document of a shared object. */
  handleFileBytesMax: 64 * KiB,
  /** Members of a group. */
  groupSizeMax: 256,
  /** The value of one member in an all-gather, as JSON in UTF-8. */
  gatherBytesMax: 64 * KiB,
  /** PTX, cubins and fatbins that are loaded, and source that is compiled. */
  moduleBytesMax: 256 * MiB,
  /** The part of a compiler's log that is kept. */
  compilerLogBytesMax: 16 * KiB,
  /** Parameters of one kernel. */
  kernelParametersMax: 1024,
  /** All parameters of one kernel together; CUDA's own limit since 12.1. */
  kernelParameterBytesMax: 32_764,
  /**
   * Events of one device, with those in its pool. Drivers have room for about 20,000 shared events
   * in all processes together.
   */
  eventsPerDeviceMax: 1000,
  /** Legacy allocations and exported events of one device. */
  exportsPerDeviceMax: 131_072,
  /** Events of one host driver. */
  hostEventsMax: 1024,
  /** Address space that growing memory of another process may reserve here. */
  reservationBytesMax: 2 ** 44,
  /** One memory file of timelines of 64 bytes each. */
  timelineArenaBytes: 64 * KiB,
  /** Memory that holds timelines of other processes. */
  timelineMemoryBytesMax: MiB,
  /** Slots of a channel. */
  channelSlotsMax: 65_536,
  /** Readers of a channel at a time. All its descriptors fit into one message. */
  channelReadersMax: 64,
  /**
   * Looks at words of a channel that its other side changes meanwhile, before a call ends. An
   * honest writer is in sight again after these:
   * - A reader that is waited for attaches in at most 3 looks: the writer may raise its limit once
   *   before it sees the reader. So more than this many is CHANNEL_CORRUPT.
   * - A lossy reader that attaches or takes has no such bound: the writer may be faster at each
   *   look. A reader that is waited for finds at most as many positions without a message as there
   *   are slots, and that can be more. So both only give the event loop a turn, and try again.
   * - A writer passes over at most the slots that readers hold: 8 for each lossy reader.
   */
  channelLooksMax: 256,
  /** Channels whose words a watcher maps. */
  watchedChannelsMax: 4096,
  /**
   * Mappings of a watcher: one of each channel, and one of each seat. Linux lets a process have
   * 65,530 (vm.max_map_count), and Node needs some.
   */
  watchedMappingsMax: 49_152,
  /** Objects with time series of their own; also channels, readers, services and programs. */
  metricsSeriesMax: 1000,
  /** The meta of one message of a channel. */
  channelMetaBytesMax: 64 * KiB,
  /** The control file of a channel, with the headers and meta of all slots. */
  channelControlBytesMax: 256 * MiB,
  /**
   * Requests of one client under way at one worker. Each has a slot for itself and one to cancel
   * it.
   */
  serviceDepthMax: 256,
  /** Clients of one service worker, and workers of one client. */
  serviceLinksMax: 1024,
  /** Users that one call names as those of workers. */
  serviceUsersMax: 64,
  /** Requests that one worker handles at a time. */
  serviceConcurrencyMax: 4096,
  /** Requests of one client that wait for a worker. */
  serviceWaitingMax: 65_536,
  /** A worker's report of a handler's error, and its description of requests. */
  serviceReportBytesMax: KiB,
  /** Connections of one web server. The next one ends the oldest one without a request. */
  webConnectionsMax: 64,
  /** Connections with an answer without an end: pages that are open. */
  webStreamsMax: 16,
  /** All headers of a request to a web server. */
  webHeaderBytesMax: 16 * KiB,
  webHeadersMax: 64,
  webUrlLengthMax: 2048,
  /** The body of a request to a web server. */
  webBodyBytesMax: 4 * KiB,
  /** Signals and waits in one batch of a stream; the driver's own limit. */
  streamBatchMax: 255,
  /** Machines that one bridge is linked with at a time, in each direction. */
  machineLinksMax: 256,
  /** Machines that a bridge knows. */
  knownMachinesMax: 1024,
  /** Names and services of one machine that another one's bridge knows: one for each object. */
  namesPerMachineMax: 50_000,
  /** Names and services of all machines that a bridge knows. */
  knownNamesMax: 200_000,
  /** Objects that one machine copies over one link at a time. */
  exportsPerLinkMax: 64,
  /** Messages of a carried channel under way at a time, and large ones that are copied. */
  carriedMessagesMax: 8,
  /**
   * Memory for the indexes of bundles that a bridge copies at a time, and of those that one machine
   * copies from it. For each array 1 KiB, and the index four times.
   */
  bridgeIndexBytesMax: 160 * MiB,
  /** Workers of other machines that one client of a service uses at a time. */
  farWorkersMax: 64,
  /** A message of a channel up to this size goes to another machine at once, unasked. */
  carriedInlineBytes: 64 * KiB,
  /** Calls of one machine that are answered at a time over one link. A bridge makes about 300. */
  linkCallsMax: 512,
  /** The UCX address of a worker of another machine. */
  ucxAddressBytesMax: 16 * KiB,
  /** Node's limit of a Buffer, 4 GiB on Node 20. A longer view would end the process. */
  viewBytesMax: constants.MAX_LENGTH,
} as const;

export const defaults = {
  /** How long a request to the hub may take. */
  requestTimeoutMs: 30_000,
  /** How long a timed-out call waits for the hub to explain the delay. */
  explanationMs: 250,
  /** How long connect() waits for a hub that it started. */
  hubStartTimeoutMs: 10_000,
  /** How long a client looks for the next hub. */
  reconnectTimeoutMs: 30_000,
  /** How long a new hub keeps what an unseen process holds, in case that process comes back. */
  unseenClientMs: 30_000,
  /** How long a client that closes without a connection tries to tell the hub. */
  goodbyeTimeoutMs: 2000,
  /** How long the hub keeps the session of a worker thread that hung up and cannot be seen. */
  unseenThreadMs: 30_000,
  /** How long a hub that was started on demand stays without clients and pinned objects. */
  hubIdleMs: 30_000,
  /** How long the reply to `publish` waits until the object is stored for the next hub. */
  keptWaitMs: 500,
  /** How long a keeper may read nothing before another one replaces it. */
  keeperStuckMs: 3000,
  /** How long another process may take to answer, to appear, or to reach a barrier. */
  peerTimeoutMs: 30_000,
  /**
   * How long a client that took a worker's offer may be silent before the worker makes another; and
   * how long the worker may then take to open the client's requests.
   */
  serviceClaimTimeoutMs: 10_000,
  /** How long a worker's offer may say no hello to the client that took it. */
  serviceHelloMs: 1000,
  /** How long a client with workers makes requests without looking for new workers. */
  serviceLookAgainMs: 1000,
  /** How long the record of a machine stays in NATS after its bridge last renewed it. */
  machineTtlMs: 6000,
  /** How long NATS keeps the names of a machine that is gone, while other bridges run. */
  goneMachineMs: 600_000,
  /** How long a link between machines may stay silent, or leave all calls unanswered. */
  machineSilenceMs: 20_000,
  /** How long a fetch waits for a machine that is gone to come back. */
  machineReturnMs: 15_000,
  /** How long a bridge carries a channel, or the replies of a worker, that nobody here reads. */
  carriedUnreadMs: 10_000,
  /** How long another machine may take to accept a link. */
  linkTimeoutMs: 5000,
  /** How long this machine's bridge may say nothing of a fetch that is under way. */
  bridgeSilenceMs: 20_000,
  /** The least pause after a bridge has looked for new names on its hub. */
  bridgeLookMs: 50,
  /** How long a client of a socket between processes may stay silent. */
  peerSilenceMs: 10_000,
  /** How long a web client may take to send its headers. */
  webRequestMs: 5000,
  /** How long a web server works on an answer. */
  webAnswerMs: 20_000,
  /** How long a web client may send no request, or take nothing of an answer. */
  webSilenceMs: 15_000,
} as const;

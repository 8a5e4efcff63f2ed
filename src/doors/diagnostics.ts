/**
 * `cuda-ipc/diagnostics`: types of the messages that this package publishes on
 * `node:diagnostics_channel`. docs/watch.md has the names of the channels.
 */
import { checkRuntime } from "../base/check-runtime.js";

export type { OperationOutcome } from "../base/diagnostics.js";
export type {
  CommitMessage,
  LoanMessage,
  ReaderDiedMessage,
  ReceiveMessage,
  ReleaseMessage,
  WriterDiedMessage,
} from "../channel/channel-diagnostics.js";
export type {
  ConnectMessage,
  CreateMessage,
  DisconnectMessage,
  HubLostMessage,
  OpenMessage,
  PublishMessage,
  ReconnectMessage,
} from "../client/client-diagnostics.js";
export type { HandleMessage, RequestMessage } from "../service/service-diagnostics.js";

checkRuntime();

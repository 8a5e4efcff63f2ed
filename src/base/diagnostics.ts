/**
 * Channels of node:diagnostics_channel, by which tools watch this process. Node finds them by name,
 * so all copies of this package in a thread share them. Nobody pays for a channel that nobody
 * subscribes to.
 */
import { channel, tracingChannel } from "node:diagnostics_channel";

const PREFIX = "cuda-ipc";

/** Something that happened. */
export interface Point<Message extends object> {
  /** Ask this first where a message costs about a microsecond: to make an object costs more. */
  readonly hasSubscribers: boolean;
  publish(message: Message): void;
}

/** Node adds these to the message of an operation before `asyncStart` and `error` get it. */
export interface OperationOutcome<Result> {
  /** The call's result, if it succeeded. */
  readonly result?: Result;
  /** The error, if the call failed. */
  readonly error?: unknown;
}

/** Something that takes time. */
export interface Operation<Message extends object> {
  /** Runs it, and publishes its start, its end and its error if anybody subscribes. */
  run<T>(message: Message, act: () => Promise<T>): Promise<T>;
}

export function point<Message extends object>(name: string): Point<Message> {
  return channel(`${PREFIX}:${name}`);
}

export function operation<Message extends object>(name: string): Operation<Message> {
  const channels = tracingChannel(`${PREFIX}:${name}`);
  return {
    run: (message, act) => (channels.hasSubscribers ? channels.tracePromise(act, message) : act()),
  };
}

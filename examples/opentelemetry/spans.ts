/**
 * Makes OpenTelemetry spans of what cuda-ipc publishes on node:diagnostics_channel: one for each
 * operation, one for each message that is sent, and one for each that is processed. It uses only
 * the API of OpenTelemetry, so it works with any SDK.
 */
import { subscribe } from "node:diagnostics_channel";
import {
  type Attributes,
  type Context,
  context,
  propagation,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import { CudaIpcError, type LoanedSlot, type Meta, type ReceivedSlot } from "cuda-ipc";
import type {
  CommitMessage,
  HandleMessage,
  LoanMessage,
  ReceiveMessage,
  ReleaseMessage,
} from "cuda-ipc/diagnostics";

/** The operations, and the kinds of their spans. */
const operations = {
  connect: SpanKind.CLIENT,
  create: SpanKind.CLIENT,
  publish: SpanKind.CLIENT,
  open: SpanKind.CLIENT,
  request: SpanKind.CLIENT,
  handle: SpanKind.SERVER,
} as const;
const moments = ["reader-died", "writer-died", "disconnect", "reconnect", "hub-lost"];

/** The spans that have begun, by the slot or message that is there from begin to end. */
const open = new WeakMap<object, { readonly span: Span; readonly within: Context }>();

/** Subscribes for the rest of this thread's life. Call it once in each thread. */
export function recordSpans(tracer: Tracer): void {
  for (const [operation, kind] of Object.entries(operations))
    recordOperation(tracer, operation, kind);
  for (const name of moments) {
    on<object>(`cuda-ipc:${name}`, (message) => {
      tracer.startSpan(name, { attributes: attributesOf(message) }).end();
    });
  }
  recordMessages(tracer);
}

/** The meta of a message with the context of its span, for the process that reads it. */
export function withTrace<M extends object>(slot: LoanedSlot, meta: M): Meta {
  const carrier: Record<string, string> = {};
  propagation.inject(contextOf(slot), carrier);
  return { ...meta, ...carrier } as Meta;
}

/** The context in which spans are children of this slot's span. */
export function contextOf(slot: LoanedSlot | ReceivedSlot): Context {
  return open.get(slot)?.within ?? context.active();
}

function recordOperation(tracer: Tracer, operation: string, kind: SpanKind): void {
  const channel = `tracing:cuda-ipc:${operation}`;
  on<{ readonly name?: string }>(`${channel}:start`, (message) => {
    const parent =
      operation === "handle" ? parentIn((message as HandleMessage).request.json) : context.active();
    const { name = "" } = message;
    begin(tracer, message, `${operation} ${name}`.trim(), kind, parent, attributesOf(message));
  });
  on<{ readonly error: unknown }>(`${channel}:error`, (message) => {
    const { error } = message;
    const span = open.get(message)?.span;
    span?.setStatus({ code: SpanStatusCode.ERROR, message: String(error) });
    span?.setAttribute("error.type", error instanceof CudaIpcError ? error.code : "_OTHER");
  });
  on<object>(`${channel}:asyncEnd`, end);
}

/** https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/ */
function recordMessages(tracer: Tracer): void {
  on<LoanMessage>("cuda-ipc:loan", ({ name, slot }) => {
    const attributes = messaging("send", name);
    begin(tracer, slot, `send ${name}`, SpanKind.PRODUCER, context.active(), attributes);
  });
  on<CommitMessage>("cuda-ipc:commit", ({ slot, sequence, byteLength }) => {
    const span = open.get(slot)?.span;
    span?.setAttribute("messaging.message.body.size", byteLength);
    if (sequence !== undefined) span?.setAttribute("messaging.message.id", String(sequence));
    end(slot);
  });
  on<ReceiveMessage>("cuda-ipc:receive", ({ name, slot, sequence, byteLength, missed }) => {
    const attributes = {
      ...messaging("process", name),
      "messaging.message.id": String(sequence),
      "messaging.message.body.size": byteLength,
      "cuda_ipc.missed": missed,
    };
    begin(tracer, slot, `process ${name}`, SpanKind.CONSUMER, parentIn(slot.json), attributes);
  });
  on<ReleaseMessage>("cuda-ipc:release", ({ slot }) => end(slot));
}

function begin(
  tracer: Tracer,
  key: object,
  name: string,
  kind: SpanKind,
  parent: Context,
  attributes: Attributes,
): void {
  const sender = trace.getSpanContext(parent);
  // OpenTelemetry's conventions for messages: a consumer's span links to the sender's span.
  const links = kind === SpanKind.CONSUMER && sender ? [{ context: sender }] : [];
  const span = tracer.startSpan(name, { kind, attributes, links }, parent);
  open.set(key, { span, within: trace.setSpan(parent, span) });
}

function end(key: object): void {
  open.get(key)?.span.end();
}

/** The context that another process put into a message, or that of this process. */
function parentIn(json: unknown): Context {
  const active = context.active();
  return typeof json === "object" && json !== null ? propagation.extract(active, json) : active;
}

function messaging(operation: "send" | "process", name: string): Attributes {
  return {
    "messaging.system": "cuda_ipc",
    "messaging.operation.type": operation,
    "messaging.operation.name": operation,
    "messaging.destination.name": name,
  };
}

/** The plain values of a message: `byteLength: 64` as `cuda_ipc.byte_length`. */
function attributesOf(message: object): Attributes {
  const found = Object.entries(message).filter(([, value]) =>
    ["string", "number", "boolean"].includes(typeof value),
  );
  const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.fromEntries(found.map(([name, value]) => [`cuda_ipc.${snake(name)}`, value]));
}

function on<Message>(name: string, listener: (message: Message) => void): void {
  subscribe(name, (message) => listener(message as Message));
}

/**
 * OpenTelemetry spans of a producer and a consumer in two processes. The producer puts the context
 * of each message into its meta, so both processes are in one trace.
 *
 *   node dist/examples/opentelemetry/main.js   in a clone after `npm install`
 *   node examples/opentelemetry/main.ts        with Node 24 or newer
 *
 * With `json` as an argument it prints whole spans. The output (the number is the process that
 * prints; "..." stands for the numbers of a trace, a span and its parent):
 *   4711  ... connect
 *   4711  ... publish frames-4711
 *   4711  ... create frames-4711
 *   4711  ... send frames-4711
 *   4711  ... send frames-4711
 *   4711  ... send frames-4711
 *   4711  ... produce
 *   4711  ... connect
 *   4711  ... open frames-4711
 *   4711  ... look at frame
 *   4711  ... process frames-4711
 *   4711  ... look at frame
 *   4711  ... process frames-4711
 *   4711  ... look at frame
 *   4711  ... process frames-4711
 *   4711  3 messages: each one was processed in the trace in which it was sent
 */
import assert from "node:assert/strict";
import { context, propagation, SpanKind } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { connect, type Hub } from "cuda-ipc";
import { Child, tellParent } from "../child.ts";
import { LIMIT, type Options, run, say } from "../program.ts";
import { contextOf, recordSpans, withTrace } from "./spans.ts";

const MESSAGES = 3;

interface SpanFacts {
  readonly pid: number;
  readonly name: string;
  readonly kind: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string | undefined;
  readonly links: readonly string[];
  readonly attributes: Readonly<Record<string, unknown>>;
}

// A real program sends its spans to a collector: OTLPTraceExporter with a BatchSpanProcessor.
const exporter = new InMemorySpanExporter();
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
const tracer = provider.getTracer("cuda-ipc-example");
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
propagation.setGlobalPropagator(new W3CTraceContextPropagator());
recordSpans(tracer);

await run({ elements: 1024 }, (options) =>
  options.role === "consumer" ? consume(options) : produce(options),
);

/** A hub that this example started ends soon after its last process. */
function join({ device }: Options): Promise<Hub> {
  return connect({ device, hubIdleMs: 500, ...LIMIT });
}

async function produce(options: Options): Promise<void> {
  await using hub = await join(options);
  const name = `frames-${process.pid}`;
  const { elements } = options;
  using writer = await hub.createChannel(name, { dtype: "int32", shape: [elements], slots: 4 });
  using consumer = new Child(import.meta.url, "consumer", options, { args: [name] });
  await consumer.during(writer.waitForReaders(1, LIMIT));
  await tracer.startActiveSpan("produce", async (span) => {
    for (let frame = 0; frame < MESSAGES; frame += 1) {
      using slot = await writer.loan(LIMIT);
      await slot.array.iota(frame, 1);
      slot.commit({ meta: withTrace(slot, { frame }) });
    }
    span.end();
  });
  writer.close();
  const processed = (await consumer.hear()) as readonly SpanFacts[];
  await consumer.finished();
  const spans = [...finished(), ...processed];
  if (options.role === "json") for (const span of spans) console.log(JSON.stringify(span));
  else for (const span of spans) print(span);
  check(spans);
  say(`${MESSAGES} messages: each one was processed in the trace in which it was sent`);
}

async function consume(options: Options): Promise<void> {
  await using hub = await join(options);
  using reader = await hub.openChannel(options.args[0] ?? "", LIMIT);
  for await (using slot of reader) {
    // The span of this message began when it was received, and ends when the slot is released.
    await context.with(contextOf(slot), () =>
      tracer.startActiveSpan("look at frame", async (span) => {
        span.setAttribute("first", Number((await slot.array.read())[0]));
        span.end();
      }),
    );
  }
  tellParent(finished());
}

function finished(): SpanFacts[] {
  return exporter.getFinishedSpans().map((span) => ({
    pid: process.pid,
    name: span.name,
    kind: SpanKind[span.kind],
    traceId: span.spanContext().traceId,
    spanId: span.spanContext().spanId,
    parentId: span.parentSpanContext?.spanId,
    links: span.links.map((link) => link.context.spanId),
    attributes: span.attributes,
  }));
}

function print({ name, traceId, spanId, parentId = "-" }: SpanFacts): void {
  const [trace, span, parent] = [traceId, spanId, parentId].map((id) => id.slice(0, 6).padEnd(6));
  say(`${trace} ${span} ${parent} ${name}`);
}

function check(spans: readonly SpanFacts[]): void {
  const sent = new Map(
    spans.filter(({ kind }) => kind === "PRODUCER").map((span) => [span.spanId, span]),
  );
  const processed = spans.filter(({ kind }) => kind === "CONSUMER");
  assert.deepEqual([sent.size, processed.length], [MESSAGES, MESSAGES]);
  for (const { traceId, parentId = "", links } of processed) {
    assert.equal(sent.get(parentId)?.traceId, traceId);
    assert.deepEqual(links, [parentId]);
  }
}

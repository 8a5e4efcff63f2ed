/**
 * The other side of a channel changes its words before each access. Calls that wait give the event
 * loop its turns, so deadlines and signals hold.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { limits } from "../../../src/base/limits.js";
import { control, HEADERS_AT, header, page } from "../../../src/ring/channel-layout.js";
import { ChannelSite } from "../../support/channel-site.js";
import { checkLeaks } from "../../support/leak-check.js";
import { beforeAccesses } from "../../support/ring/shared-accesses.js";

/** More than the accesses of one turn of the event loop. */
const ACCESSES_PER_TURN = limits.channelLooksMax * 100;

/** Changes words before each access, and counts the turns of the event loop meanwhile. */
class Restless {
  #turns = 0;
  #accesses = 0;
  #isOver = false;
  readonly #watch: Disposable;

  constructor(
    change: (given: readonly unknown[]) => void,
    onTurn: (turns: number) => unknown = () => {},
  ) {
    const turn = () => {
      if (this.#isOver) return;
      this.#turns += 1;
      this.#accesses = 0;
      onTurn(this.#turns);
      setImmediate(turn);
    };
    setImmediate(turn);
    this.#watch = beforeAccesses((_count, given) => {
      this.#accesses += 1;
      assert.ok(this.#accesses < ACCESSES_PER_TURN, "the event loop gets no turn");
      change(given);
    });
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    this.#watch[Symbol.dispose]();
  }
}

/** A writer that seems to have overtaken the reader at each look. */
function outruns(site: ChannelSite): () => void {
  const { slots } = site.shape;
  const words = site.control;
  let limit = slots;
  return () => {
    limit += 2 * slots + 1;
    words[control.published / 8] = BigInt(limit);
    words[control.limit / 8] = BigInt(limit);
    for (let slot = 0; slot < slots; slot += 1)
      words[(HEADERS_AT + slot * headerStride(site) + header.generation) / 8] = 2n ** 50n;
  };
}

const headerStride = (site: ChannelSite) => header.meta + site.shape.metaBytesMax;
const ended = (code: "TIMEOUT" | "ABORTED") => (error: unknown) => hasCode(error, code);

describe("a channel whose other side changes its words at each look", () => {
  checkLeaks();

  it("ends next() at its deadline, and says why", async () => {
    using site = new ChannelSite({ whenFull: "drop-oldest" });
    using reader = site.reader({ spinMs: 0 });
    using _ = new Restless(outruns(site));
    await assert.rejects(reader.next({ timeoutMs: 20 }), (error) => {
      const why = /its writer never stops changing its words: 256 looks found no message/;
      return ended("TIMEOUT")(error) && why.test((error as Error).message);
    });
    assert.equal(reader.tryNext(), undefined);
  });

  it("ends next() when its signal aborts, and when the reader is closed", async () => {
    using site = new ChannelSite({ whenFull: "drop-oldest" });
    using reader = site.reader({ spinMs: 0 });
    const abort = new AbortController();
    const onTurn = (turns: number) => {
      if (turns === 10) abort.abort();
      if (turns === 20) reader.close();
    };
    using _ = new Restless(outruns(site), onTurn);
    await assert.rejects(reader.next({ signal: abort.signal }), ended("ABORTED"));
    await assert.rejects(reader.next(), (error) => hasCode(error, "CLOSED"));
  });

  /** Changes this word at each load: it is 0 for the first ones, then 1, 0, 1, 0 and so on. */
  const flips = (words: BigInt64Array, byteOffset: number, first: number) => {
    let loads = 0;
    return ([loaded, index]: readonly unknown[]) => {
      const isOfFile = (loaded as BigInt64Array).byteLength === words.byteLength;
      if (!isOfFile || !(loaded instanceof BigInt64Array) || index !== byteOffset / 8) return;
      words[byteOffset / 8] = loads >= first && (loads - first) % 2 === 0 ? 1n : 0n;
      loads += 1;
    };
  };

  it("ends next() although its data is ready at every other look", async () => {
    using site = new ChannelSite();
    using reader = site.reader({ spinMs: 0 });
    site.writer.tryLoan()?.commit();
    site.control[(HEADERS_AT + header.readyAt) / 8] = 1n;
    const abort = new AbortController();
    const onTurn = (turns: number) => turns === 10 && abort.abort();
    using _ = new Restless(flips(site.control, control.ready, 1), onTurn);
    await assert.rejects(reader.next({ signal: abort.signal }), ended("ABORTED"));
  });

  it("ends loan() although a reader's stream is done at every other look", async () => {
    using site = new ChannelSite({ slots: 1 });
    using reader = site.reader();
    site.writer.tryLoan()?.commit();
    reader.tryNext()?.release();
    const words = site.page(0);
    words[page.gpuReleased / 8] = 1n;
    const abort = new AbortController();
    const onTurn = (turns: number) => turns === 10 && abort.abort();
    {
      using _ = new Restless(flips(words, page.done, 2), onTurn);
      await assert.rejects(site.writer.loan({ signal: abort.signal }), ended("ABORTED"));
    }
    words[page.done / 8] = 1n;
  });

  it("does not hold tryNext() up by messages that are lost", () => {
    using site = new ChannelSite({ slots: 1 });
    using reader = site.reader();
    const words = site.control;
    words[control.ready / 8] = 2n ** 63n - 1n;
    let position = 0;
    let accesses = 0;
    using _ = beforeAccesses(() => {
      accesses += 1;
      assert.ok(accesses < ACCESSES_PER_TURN, "it takes on and on");
      // Each message that it takes waits for a value that its writer's timeline never reached.
      position = Math.max(position, Number(site.page(0)[page.released / 8]));
      words[(HEADERS_AT + header.sequence) / 8] = BigInt(position);
      words[(HEADERS_AT + header.readyAt) / 8] = BigInt(position + 1);
      words[(HEADERS_AT + header.generation) / 8] = BigInt(position + 1);
    });
    assert.equal(reader.tryNext(), undefined);
    assert.equal(reader.missed, limits.channelLooksMax);
  });
});

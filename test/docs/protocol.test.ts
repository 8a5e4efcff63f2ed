/**
 * Compares messages and descriptors in docs/protocol.md, and the files beside it, with the sources.
 */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import * as v from "valibot";
import { dtypeNames, dtypes } from "../../src/array/dtype.js";
import { errorCodes } from "../../src/base/error-codes.js";
import { limits } from "../../src/base/limits.js";
import { channelFdsAt, readerFdsAt } from "../../src/ring/channel-fds.js";
import { channelContent, channelFds } from "../../src/wire/channel-content.js";
import { arrayLayout, descriptorSchema } from "../../src/wire/descriptor.js";
import { exporterSchema } from "../../src/wire/ipc-documents.js";
import { requestSchema, resultSchemas } from "../../src/wire/messages.js";
import { sharedDocumentSchema } from "../../src/wire/shared-document.js";
import { namesIn, tableOf } from "./markdown-tables.js";
import { headerText } from "./protocol-header.js";
import { vectorFiles } from "./vectors/vector-files.js";

const page = readFileSync("docs/protocol.md", "utf8");
const table = (heading: string, number?: number) => tableOf(page, heading, number);
const column = (heading: string, index: number, number?: number) =>
  table(heading, number).map((row) => row[index] ?? "");
/** `?` marks what may be left out. */
function entriesOf(schema: { readonly entries: object }): string[] {
  return Object.entries(schema.entries).map(
    ([name, { type }]) => `${name}${type === "optional" ? "?" : ""}`,
  );
}

describe("the messages in docs/protocol.md", () => {
  it("have each operation with its fields and results", () => {
    const rows = table("Operations").map(([op, fields, , result]) => [
      op,
      namesIn(fields),
      op === "status" ? [] : namesIn(result),
    ]);
    const wanted = requestSchema.options.map((option) => {
      const op = option.entries.op.literal;
      const fields = entriesOf(option).filter((name) => !["v", "id", "op"].includes(name));
      return [op, fields, op === "status" ? [] : entriesOf(resultSchemas[op])];
    });
    assert.deepEqual(new Map(rows.map(sorted)), new Map(wanted.map(sorted)));
  });

  function sorted([op, fields, results]: unknown[]): [unknown, unknown] {
    return [op, [(fields as string[]).sort(), (results as string[]).sort()]];
  }

  it("have each field of status, of its lists, and of entries of the others", () => {
    const status = resultSchemas.status.entries;
    assert.deepEqual(
      column("status", 0).flatMap(namesIn).sort(),
      entriesOf(resultSchemas.status).sort(),
    );
    const listed = (name: string) =>
      table("status").find(([names]) => namesIn(names).includes(name))?.[1] ?? "";
    const inBraces = (name: string) =>
      (/\{(.*?)\}/.exec(listed(name))?.[1] ?? "").split(", ").map((field) => field.slice(1, -1));
    assert.deepEqual(inBraces("keeper").sort(), entriesOf(status.keeper.wrapped).sort());
    for (const name of ["lost", "limits", "users"] as const)
      assert.deepEqual(inBraces(name).sort(), entriesOf(status[name].item).sort(), name);
    const { objects } = resultSchemas.list.entries;
    const told = (heading: string, number?: number) =>
      column(heading, 0, number).flatMap(namesIn).sort();
    assert.deepEqual(told("list, inspect, changes", 0), entriesOf(objects.item).sort());
    const { item: holder } = resultSchemas.inspect.entries.holders;
    assert.deepEqual(told("list, inspect, changes", 1), entriesOf(holder).sort());
    const { clients } = resultSchemas.clients.entries;
    assert.deepEqual(told("clients"), entriesOf(clients.item).sort());
  });

  it("name error codes that there are", () => {
    const named = column("Errors, and what they end", 1).flatMap((cell) =>
      cell.match(/[A-Z_]{5,}/g),
    );
    assert.ok(named.length > 20);
    for (const code of named) assert.ok(String(code) in errorCodes, String(code));
  });

  it("have the most descriptors that an answer brings", () => {
    const most = { readersMax: limits.channelReadersMax };
    const wanted = [channelFds(most, "reader"), channelFds(most, "observer"), channelFds(most)];
    assert.equal(column("Messages", 1)[1], wanted.join(", "));
    assert.ok(page.includes(`No message has more than ${limits.scmRightsFdsMax}.`));
    assert.ok(page.includes(`of at most ${limits.messageBytesMax} bytes`));
    assert.ok(page.includes(`The path has at most ${limits.socketPathBytesMax} bytes.`));
  });
});

describe("the descriptors in docs/protocol.md", () => {
  it("have each field", () => {
    assert.deepEqual(column("Descriptors", 0, 0), entriesOf(descriptorSchema));
    assert.deepEqual(column("Descriptors", 0, 1), entriesOf(arrayLayout));
    const fields = entriesOf(channelContent).filter((name) => name !== "kind");
    assert.deepEqual(column("What create sends", 0, 0), fields);
  });

  it("have each dtype with its bytes", () => {
    const rows = table("Descriptors", 2).flatMap(([names, bytes]) =>
      namesIn(names?.replaceAll(/ \([^)]*\)/g, "")).map((name) => [name, Number(bytes)] as const),
    );
    const wanted = dtypeNames.map((name) => [name, dtypes[name].byteSize] as const);
    assert.deepEqual(new Map(rows), new Map(wanted));
    assert.equal(rows.length, wanted.length);
  });

  it("have the limits of a channel and of a bundle", () => {
    const value = (name: string) =>
      table("What create sends").find(([field]) => field === name)?.[1] ?? "";
    assert.ok(value("slots").endsWith(` ${limits.channelSlotsMax}`));
    assert.ok(value("readersMax").endsWith(` ${limits.channelReadersMax}`));
    assert.ok(value("metaBytesMax").endsWith(` ${limits.channelMetaBytesMax}`));
    const { bundleArraysMax, bundleIndexBytesMax } = limits;
    assert.ok(
      page.includes(`from 0 to ${bundleArraysMax}. M is from 2 to ${bundleIndexBytesMax}.`),
    );
  });

  it("have a channel's file descriptors in order, for each role", () => {
    const rows = table("What create sends", 1);
    assert.deepEqual(
      rows.map(([number]) => number),
      [channelFdsAt.data, channelFdsAt.control, channelFdsAt.roomBell]
        .map(String)
        .concat(`${channelFdsAt.page(0)} + 2k`, `${channelFdsAt.bell(0)} + 2k`),
    );
    const { data, control: second, roomBell, page: fourth, bell } = readerFdsAt;
    assert.deepEqual(
      rows.map(([, , , reader]) => Number(/number (\d)/.exec(reader ?? "")?.[1])),
      [data, second, roomBell, fourth, bell],
    );
    assert.equal(channelFdsAt.page(1) - channelFdsAt.page(0), 2);
  });

  it("have each kind of document with its fields", () => {
    const rows = table("Sharing without a hub", 2).flatMap(([names, fields]) =>
      namesIn(names).map((kind) => [kind, namesIn(fields).sort()] as const),
    );
    const head = ["format", "version", "kind", "exporter"];
    const wanted = sharedDocumentSchema.options.map(
      (option) =>
        [
          option.entries.kind.literal,
          entriesOf(option)
            .filter((name) => !head.includes(name))
            .sort(),
        ] as const,
    );
    assert.deepEqual(column("Sharing without a hub", 0, 0).sort(), head.sort());
    assert.deepEqual(
      column("Sharing without a hub", 0, 1).sort(),
      entriesOf(exporterSchema).sort(),
    );
    assert.deepEqual(new Map(rows), new Map(wanted as never));
  });
});

describe("the files beside docs/protocol.md", () => {
  const text = readFileSync("include/cuda_ipc_protocol.h", "utf8");

  it("are what the sources say (npm run docs:reference writes them)", async () => {
    assert.equal(text, headerText());
    const files = await vectorFiles();
    const folder = "docs/protocol/vectors";
    const there = readdirSync(folder).map((name) => `${folder}/${name}`);
    assert.deepEqual(there.sort(), [...files.keys()].sort());
    for (const [file, written] of files) assert.equal(readFileSync(file, "utf8"), written, file);
  });

  const compiler = process.env.CC ?? "cc";
  const hasCompiler = spawnSync(compiler, ["--version"]).status === 0;
  const skip = hasCompiler ? false : "there is no C compiler";

  it("compile as C, whose assertions hold", { skip }, () => {
    const options = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"];
    execFileSync(compiler, [...options, "-x", "c", "-"], { input: text });
    const wrong = text.replace("limit) == 192", "limit) == 200");
    assert.notEqual(wrong, text);
    assert.notEqual(spawnSync(compiler, [...options, "-x", "c", "-"], { input: wrong }).status, 0);
  });
});

describe("docs/protocol.md", () => {
  it("has examples that the schemas take", () => {
    const blocks = [...page.matchAll(/```json\n(.*?)```/gs)].map(([, json]) =>
      JSON.parse(json ?? ""),
    );
    const isOne = (schema: v.GenericSchema) => blocks.filter((block) => v.is(schema, block)).length;
    assert.ok(isOne(descriptorSchema) >= 1);
    assert.ok(isOne(channelContent) >= 1);
  });

  it("has lines of at most 100 characters, tables and links excepted", () => {
    const long = page
      .split("\n")
      .filter((line) => line.length > 100 && !/^ *\|/.test(line) && !line.includes("]("));
    assert.deepEqual(long, []);
  });

  it("names no file of the sources", () => {
    assert.doesNotMatch(page, /\bsrc\/|\.ts\b/);
  });

  it("has links to sections that there are", () => {
    const anchors = new Set(
      [...page.matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
        (heading ?? "")
          .toLowerCase()
          .replaceAll(/[^a-z0-9 -]/g, "")
          .replaceAll(" ", "-"),
      ),
    );
    for (const [, anchor] of page.matchAll(/\]\(#([^)]*)\)/g))
      assert.ok(anchors.has(anchor ?? ""), anchor);
  });
});

/** Answers that an honest hub never gives, and what every client makes of them. */
import { control as words } from "../../../src/ring/channel-layout.js";
import {
  answer,
  type Call,
  control,
  files,
  goods,
  type HostileFile,
  type HostileVector,
  INDEX,
  index,
  memory,
  Raw,
  set,
  written,
} from "./hostile-answers.js";

const all: HostileVector[] = [];

function add(
  what: string,
  call: Call,
  verdict: string,
  answers: readonly string[],
  fds: readonly (string | HostileFile)[] = goods[call].fds,
  sees?: string,
): void {
  all.push({ what: `${call}: ${what}`, call, verdict, ...(sees && { sees }), fds, answers });
}

/** A good answer with changes of its text, at these paths. */
function changed(
  what: string,
  call: Call,
  verdict: string,
  change: Readonly<Record<string, unknown>>,
  sees?: string,
): void {
  add(what, call, verdict, [answer(goods[call].result, change)], goods[call].fds, sees);
}

/** A good answer with other descriptors. */
function withFds(
  what: string,
  call: Call,
  verdict: string,
  fds: readonly (string | HostileFile)[],
  change: Readonly<Record<string, unknown>> = {},
): void {
  add(what, call, verdict, [answer(goods[call].result, change)], fds);
}

const good = (call: Call) => answer(goods[call].result);
const BOM = "\u00ef\u00bb\u00bf";
const D = "result.descriptor";
const A = `${D}.content.array`;
const INT32_2x3 = "int32 2,3";

function packets(): void {
  for (const call of ["connect", "array", "list"] as const) {
    const refused = (what: string, text: string) => add(what, call, "INVALID_MESSAGE", [text], []);
    refused("text that is not JSON", "hello");
    refused("half of an answer", good(call).slice(0, -5));
    refused("an answer with more behind it", `${good(call)}x`);
    refused("two answers in one packet", good(call) + good(call));
    refused("a NUL behind the answer", `${good(call)}\0`);
    refused("a byte order mark", BOM + good(call));
    refused("UTF-16", [...good(call)].join("\0").concat("\0"));
    refused("bytes that are not UTF-8", answer(goods[call].result, { x: new Raw('"\u00ff"') }));
    refused(
      "an overlong UTF-8 sequence",
      answer(goods[call].result, { x: new Raw('"\u00c0\u0080"') }),
    );
    refused(
      "half of a surrogate pair in UTF-8",
      answer(goods[call].result, { x: new Raw('"\u00ed\u00a0\u0080"') }),
    );
    refused("a control character in a text", answer(goods[call].result, { x: new Raw('"\n"') }));
    refused("a comma too many", `${good(call).slice(0, -1)},}`);
    refused("a comment", `/**/${good(call)}`);
    refused("keys without quotes", good(call).replace('"ok"', "ok"));
    refused("quotes of another kind", good(call).replace('"ok"', "'ok'"));
    refused("NaN", answer(goods[call].result, { x: new Raw("NaN") }));
    refused("Infinity", answer(goods[call].result, { x: new Raw("-Infinity") }));
    refused("a number with a zero before it", answer(goods[call].result, { x: new Raw("01") }));
    refused("a number with a plus", answer(goods[call].result, { x: new Raw("+1") }));
    refused("a number that ends with its point", answer(goods[call].result, { x: new Raw("1.") }));
    refused("a number in base 16", answer(goods[call].result, { x: new Raw("0x1") }));
    refused("a list instead of an answer", "[]");
    refused("a number instead of an answer", "1");
    refused("null instead of an answer", "null");
    refused("lists in 20000 lists", "$(20000*[)$(20000*])");
    const long = answer(goods[call].result, { x: "$(65536*x)" });
    add("a packet over the limit", call, "MESSAGE_TOO_LARGE", [long], []);
  }
}

function replies(): void {
  const call = "array";
  for (const [what, value] of Object.entries({
    none: undefined,
    0: 0,
    "another one": new Raw("77"),
    "a negative one": -1,
    "a text": "2",
    null: null,
    true: true,
    "half a number": 1.5,
    "one that was never sent": 2 ** 52,
    "one over 2^53": 2 ** 53,
  }))
    changed(`id: ${what}`, call, "INVALID_MESSAGE", { id: value });
  for (const [what, value] of Object.entries({ none: undefined, "a text": "1", true: true }))
    changed(`v: ${what}`, call, "INVALID_MESSAGE", { v: value });
  for (const v of [0, 2, -1, 1.5]) changed(`v: ${v}`, call, "PROTOCOL_MISMATCH", { v });
  const other = { v: 2, id: undefined, ok: undefined, result: undefined };
  changed("another v and nothing else", call, "PROTOCOL_MISMATCH", other);
  for (const [what, ok] of Object.entries({ none: undefined, "a text": "true", "1": 1 }))
    changed(`ok: ${what}`, call, "INVALID_MESSAGE", { ok });
  changed("ok: false, without an error", call, "INVALID_MESSAGE", { ok: false });
  for (const [what, result] of Object.entries({
    none: undefined,
    null: null,
    "a list": [],
    "a text": "x",
    empty: {},
  }))
    changed(`result: ${what}`, call, "INVALID_MESSAGE", { result });
  const failed = (what: string, verdict: string, error: unknown, id: unknown = new Raw("$ID")) =>
    changed(what, call, verdict, { ok: false, result: undefined, error, id });
  failed("a refusal", "NOT_FOUND", { code: "NOT_FOUND", message: "no" });
  failed("a code that is unknown", "SYSTEM_ERROR", { code: "NO_SUCH_CODE", message: "no" });
  failed("a code of no letters", "SYSTEM_ERROR", { code: "", message: "no" });
  failed("a code of 16384 letters", "SYSTEM_ERROR", { code: "$(16384*N)", message: "no" });
  failed("an error that is a text", "INVALID_MESSAGE", "NOT_FOUND");
  failed("an error without a code", "INVALID_MESSAGE", { message: "no" });
  failed("an error without a message", "INVALID_MESSAGE", { code: "NOT_FOUND" });
  failed("a code that is a number", "INVALID_MESSAGE", { code: 1, message: "no" });
  failed("a message that is null", "INVALID_MESSAGE", { code: "NOT_FOUND", message: null });
  const message = "$(60000*x)";
  failed("a message of 60000 characters", "NOT_FOUND", { code: "NOT_FOUND", message });
  const nul = { code: "NOT_FOUND\0", message: "no" };
  failed("a code with a NUL behind it", "SYSTEM_ERROR", nul);
  failed("a refusal of nothing", "LIMIT_EXCEEDED", { code: "LIMIT_EXCEEDED", message: "no" }, 0);
  const negative = { code: "NOT_FOUND", message: "no" };
  failed("a refusal of a negative number", "INVALID_MESSAGE", negative, new Raw("-$ID"));
  failed("the farewell", "HUB_GONE", { code: "HUB_GONE", message: "bye" }, 0);
  changed("an unknown field of the answer", call, "OK", { more: { any: [1] } }, INT32_2x3);
  changed("an unknown field of the result", call, "OK", { "result.more": 1 }, INT32_2x3);
  changed("an error beside the result", call, "OK", { error: "x" }, INT32_2x3);
  // The answer itself is the first level.
  const more = (what: string, verdict: string, text: string) => {
    const sees = verdict === "OK" ? INT32_2x3 : undefined;
    changed(`an unknown field: ${what}`, call, verdict, { more: new Raw(text) }, sees);
  };
  more("32 levels, all lists", "OK", "$(31*[)$(31*])");
  more("32 levels with a number in them", "OK", "$(31*[)1$(31*])");
  more("32 levels, all objects", "OK", `${'{"a":'.repeat(31)}1$(31*})`);
  more("33 levels, all lists", "INVALID_MESSAGE", "$(32*[)$(32*])");
  more("33 levels with a number in them", "INVALID_MESSAGE", "$(32*[)1$(32*])");
  more("33 levels, all objects", "INVALID_MESSAGE", `${'{"a":'.repeat(32)}1$(32*})`);
  more("33 levels, and the key again", "INVALID_MESSAGE", '$(32*[)$(32*]),"more":1');
  more("brackets in a text", "OK", '"\\"$(100*[)"');
  more("many lists beside each other", "OK", `[${Array(40).fill("[]").join(",")}]`);
  more("a number of 5000 digits", "OK", "$(5000*9)");
  more("a negative number of 5000 digits", "OK", "-$(5000*9)");
  more("an exponent of 5000 digits", "OK", "1e$(5000*9)");
  const twice = good(call).replace('"ok":true', '"ok":false,"ok":true');
  add("a key twice: the last one counts", call, "OK", [twice], goods[call].fds, INT32_2x3);
  const escaped = good(call).replace('"ok"', '"\\u006fk"').replace('"lease"', '"l\\u0065ase"');
  add("keys with escapes", call, "OK", [escaped], goods[call].fds, INT32_2x3);
  const spaced = good(call).replaceAll(":", " :\r\n\t ");
  add("space between all", call, "OK", [spaced], goods[call].fds, INT32_2x3);
  // Of a list, because an object that was just opened ends with the connection.
  add("two answers", "list", "OK", [good("list"), good("list")]);
  const refusal = answer(undefined, { ok: false, error: { code: "NOT_FOUND", message: "" } });
  add("a refusal behind the answer", "list", "OK", [good("list"), refusal]);
  for (const field of ["object", "lease"]) {
    for (const value of [undefined, null, 0, -1, 1.5, "9", 2 ** 53, true, [9]])
      changed(`${field}: ${JSON.stringify(value)}`, call, "INVALID_MESSAGE", {
        [`result.${field}`]: value,
      });
    const other = { [`result.${field}`]: new Raw("123456789012345678901234567890") };
    changed(`${field}: 30 digits`, call, "INVALID_MESSAGE", other);
    const by = (text: string) => ({ [`result.${field}`]: new Raw(text) });
    changed(`${field}: 9.0, which is 9`, call, "OK", by("9.0"), INT32_2x3);
    changed(`${field}: 90e-1, which is 9`, call, "OK", by("90e-1"), INT32_2x3);
    changed(`${field}: -0.0, which is 0`, call, "INVALID_MESSAGE", by("-0.0"));
    changed(`${field}: 1e400`, call, "INVALID_MESSAGE", by("1e400"));
    changed(`${field}: 5000 digits`, call, "INVALID_MESSAGE", by("$(5000*9)"));
    changed(
      `${field}: 9 with 5000 zeros behind its point`,
      call,
      "OK",
      by("9.$(5000*0)"),
      INT32_2x3,
    );
    changed(`${field}: 9, of 5000 digits`, call, "OK", by("9$(5000*0)e-5000"), INT32_2x3);
  }
  for (const name of ["create", "connect"] as const)
    for (const field of name === "create" ? ["object", "lease"] : ["session"])
      for (const value of [undefined, 0, "1", 2 ** 53])
        changed(`${field}: ${JSON.stringify(value)}`, name, "INVALID_MESSAGE", {
          [`result.${field}`]: value,
        });
  withFds("descriptors that belong to nothing", "create", "OK", ["memory", "pipe", "/dev/null"]);
  withFds("descriptors that belong to nothing", "list", "OK", ["memory", "pipe", "bell"]);
  withFds("descriptors that belong to nothing", "connect", "OK", ["memory", "socket"]);
}

function descriptors(): void {
  const call = "array";
  const refused = (what: string, change: Readonly<Record<string, unknown>>) =>
    changed(what, call, "INVALID_DESCRIPTOR", change);
  const each = (path: string, values: readonly unknown[]) => {
    for (const value of values)
      refused(`${path.replace(`${D}.`, "")}: ${value === undefined ? "none" : written(value)}`, {
        [path]: value,
      });
  };
  each(D, [undefined, null, [], "x", 1]);
  each(`${D}.version`, [undefined, 0, 2, "1", true, null]);
  each(`${D}.device`, [undefined, null, "host", { kind: "tpu" }, {}]);
  refused("a GPU without a UUID", {
    [`${D}.device`]: { kind: "cuda" },
    [`${D}.mechanism`]: "vmm",
  });
  refused("a GPU with a short UUID", {
    [`${D}.device`]: { kind: "cuda", uuid: "GPU-1" },
    [`${D}.mechanism`]: "vmm",
  });
  each(`${D}.mechanism`, [undefined, null, "vmm", "mmap", 1]);
  each(`${D}.byteLength`, [undefined, null, -1, 4097, 24.5, "24", true, 2 ** 53, 23]);
  each(`${D}.allocationByteLength`, [undefined, 0, -4096, "4096", 2 ** 53, 2 ** 60, 4097, 8192]);
  each(`${D}.content`, [undefined, null, [], "array", {}]);
  each(`${D}.content.kind`, [undefined, null, "tensor", 1, ["array"]]);
  const others = {
    bundle: ["memory", index(written(INDEX))],
    timeline: goods.timeline.fds,
    channel: goods.reader.fds,
  } as const;
  for (const [kind, fds] of Object.entries(others)) {
    const { result } = goods[kind === "channel" ? "reader" : (kind as Call)];
    const { descriptor } = result as { descriptor: unknown };
    const { change } = bundleOf(INDEX);
    const more = kind === "bundle" ? change : {};
    withFds(`a ${kind}`, call, "WRONG_KIND", fds, { [D]: descriptor, ...more });
  }
  each(A, [undefined, null, [], {}]);
  changed("dtype: int7", call, "UNSUPPORTED_DTYPE", { [`${A}.dtype`]: "int7" });
  changed("dtype: INT32", call, "UNSUPPORTED_DTYPE", { [`${A}.dtype`]: "INT32" });
  changed("dtype with a NUL", call, "UNSUPPORTED_DTYPE", { [`${A}.dtype`]: "int32\0" });
  changed("dtype of an inherited name", call, "UNSUPPORTED_DTYPE", { [`${A}.dtype`]: "toString" });
  each(`${A}.dtype`, [undefined, null, 5, ["int32"]]);
  const ones = (count: number) => Array.from({ length: count }, () => 1);
  each(`${A}.shape`, [undefined, null, {}, "23", [2, 4], [-2, 3], [2, 3.5], [2, "3"], [2, null]]);
  each(`${A}.shape`, [[2], [2, 3, 1], [2 ** 53, 1], [2 ** 52, 2 ** 52], [0, 2 ** 52, 2 ** 52]]);
  each(`${A}.strides`, [undefined, null, {}, [3], [3, 2], [-3, 1], [3, -1], [3, 1.5], [3, "1"]]);
  each(`${A}.strides`, [
    [2 ** 52, 1],
    [-(2 ** 52), 1],
    [2 ** 53, 1],
    [2 ** 60, 1],
    [6, 1],
  ]);
  each(`${A}.byteOffset`, [undefined, null, -4, 4, 2, 1.5, "0", 4096, 2 ** 52, 2 ** 53, true]);
  refused("33 dimensions", { [`${A}.shape`]: ones(33), [`${A}.strides`]: ones(33) });
  refused("more elements than bytes", { [`${A}.shape`]: [7], [`${A}.strides`]: [0] });
  const empty = { [`${A}.shape`]: [0], [`${A}.strides`]: [1] };
  refused("no elements, behind the end", { ...empty, [`${A}.byteOffset`]: 28 });
  refused("no elements, and too many beside", {
    [`${A}.shape`]: [0, 2 ** 52, 2 ** 52],
    [`${A}.strides`]: [1, 1, 1],
  });
  changed("no elements at the end", call, "OK", { ...empty, [`${A}.byteOffset`]: 24 }, "int32 0");
  const sees = (shape: string) => `int32 ${shape}`;
  changed(
    "32 dimensions",
    call,
    "OK",
    { [`${A}.shape`]: ones(32), [`${A}.strides`]: ones(32) },
    sees(ones(32).join(",")),
  );
  changed("no dimensions", call, "OK", { [`${A}.shape`]: [], [`${A}.strides`]: [] }, sees(""));
  changed("strides of 0", call, "OK", { [`${A}.strides`]: [0, 0] }, INT32_2x3);
  const reversed = { [`${A}.strides`]: [-3, -1], [`${A}.byteOffset`]: 20 };
  changed("negative strides", call, "OK", reversed, INT32_2x3);
  const numbers = { [`${A}.shape`]: new Raw("[2.0,3e0]"), [`${A}.byteOffset`]: new Raw("-0.0") };
  changed("numbers by their value", call, "OK", numbers, INT32_2x3);
  refused("an unknown field", { [`${D}.more`]: 1 });
  refused("an unknown field of the device", { [`${D}.device.more`]: 1 });
  refused("an unknown field of the content", { [`${D}.content.more`]: 1 });
  refused("an unknown field of the array", { [`${A}.more`]: 1 });
  refused("a handle of memory that is not legacy", { [`${D}.legacy`]: { handle: "" } });
  refused("a pool of memory that is in none", { [`${D}.pooled`]: {} });
  for (const field of ["legacy", "pooled"]) refused(`${field}: null`, { [`${D}.${field}`]: null });
  changed(
    "a copy of another machine",
    call,
    "OK",
    { [`${D}.replicaOf`]: { machine: "gpu-01", object: 7 } },
    INT32_2x3,
  );
  each(`${D}.replicaOf`, [null, {}, { machine: "a/b", object: 7 }, { machine: "a", object: 0 }]);
  const twice = good(call).replace('"byteOffset":0', '"byteOffset":4,"byteOffset":0');
  add(
    "a key of the array twice: the last one counts",
    call,
    "OK",
    [twice],
    goods[call].fds,
    INT32_2x3,
  );
}

function memories(): void {
  for (const call of ["array", "array to write", "timeline", "bundle"] as const) {
    const more = call === "bundle" ? [index(JSON.stringify(INDEX))] : [];
    const change = call === "bundle" ? bundleOf(INDEX).change : {};
    const refused = (what: string, fds: readonly (string | HostileFile)[]) =>
      withFds(what, call, "INVALID_DESCRIPTOR", [...fds, ...more], change);
    withFds("no descriptor", call, "INVALID_DESCRIPTOR", [], change);
    withFds(
      "a descriptor too many",
      call,
      "INVALID_DESCRIPTOR",
      [...goods[call].fds, ...more, "memory"],
      change,
    );
    for (const name of [
      "pipe",
      "bell",
      "socket",
      "folder",
      "/dev/null",
      "huge pages",
      "unsealed memory",
      "memory that can shrink",
      "memory that can grow",
      "short memory",
      "no memory",
      "memory with more behind its end",
    ])
      refused(name, [name]);
    withFds("long memory", call, "OK", ["long memory", ...more], change);
  }
  withFds("memory to read", "array to write", "READ_ONLY", ["memory to read"]);
}

function bundleOf(document: unknown, count?: number, bytes?: number) {
  const text = typeof document === "string" ? document : written(document);
  const arrays = (document as { arrays?: unknown }).arrays;
  const arrayCount = count ?? (Array.isArray(arrays) ? arrays.length : 2);
  const content = { kind: "bundle", arrayCount, indexByteLength: bytes ?? text.length };
  return { text, change: { [`${D}.content`]: content } };
}

function bundles(): void {
  const call = "bundle";
  const named = (...names: readonly string[]) =>
    names.map((name) => Buffer.from(name).toString("hex")).join(",");
  const test = (
    what: string,
    verdict: string,
    document: unknown,
    {
      count,
      bytes,
      file,
      sees,
    }: {
      count?: number;
      bytes?: number;
      file?: Partial<HostileFile>;
      sees?: string;
    } = {},
  ) => {
    const { text, change } = bundleOf(document, count, bytes);
    add(
      `index: ${what}`,
      call,
      verdict,
      [answer(goods[call].result, change)],
      ["memory to read", index(text, file)],
      sees,
    );
  };
  const refused = (what: string, document: unknown, more = {}) =>
    test(what, "INVALID_DESCRIPTOR", document, more);
  const taken = (what: string, document: unknown, sees = named("w", "b")) =>
    test(what, "OK", document, { sees });
  const text = written(INDEX);
  taken("as it should be", INDEX);
  refused("a byte order mark", BOM + text);
  refused("not JSON", "{".repeat(8));
  refused("more behind it", `${text}x`);
  refused("a NUL behind it", `${text}\0`);
  refused("bytes that are not UTF-8", text.replace('"k"', '"\u00ff"'));
  refused("NaN", text.replace('"byteOffset":8', '"byteOffset":NaN'));
  refused("lists in lists", "[".repeat(9) + "]".repeat(9));
  refused("more lists than its arrays need", set(INDEX, "more", Array(5).fill([])));
  for (const value of [undefined, 2, "1", true])
    refused(`version: ${value}`, set(INDEX, "version", value));
  for (const value of [undefined, null, [], "x", { k: 1 }, { k: null }])
    refused(`metadata: ${JSON.stringify(value)}`, set(INDEX, "metadata", value));
  for (const value of [undefined, null, {}, "x"])
    refused(`arrays: ${JSON.stringify(value)}`, set(INDEX, "arrays", value));
  refused("an unknown field", set(INDEX, "more", 1));
  refused("an unknown field of an array", set(INDEX, "arrays.0.more", 1));
  refused("an array too few", INDEX, { count: 3 });
  refused("an array too many", INDEX, { count: 1 });
  refused("more arrays than there may be", INDEX, { count: 1_000_001 });
  refused("more arrays than it has bytes", INDEX, { count: 1_000_000 });
  for (const count of [-1, 1.5, "2"]) refused(`arrayCount: ${count}`, INDEX, { count });
  for (const bytes of [0, 1, -1, 67_108_865, text.length - 1, text.length + 1, 10.5])
    refused(`indexByteLength: ${bytes}`, INDEX, { bytes });
  refused("not sealed against writing", INDEX, { file: { seals: ["shrink", "grow", "seal"] } });
  refused("not sealed against a shorter end", INDEX, { file: { seals: ["grow", "write"] } });
  refused("a pipe", INDEX, { file: { kind: "pipe" } });
  refused("an eventfd", INDEX, { file: { kind: "eventfd" } });
  refused("two arrays of one name", set(INDEX, "arrays.1.name", "w"));
  refused(
    "two arrays of one name, one of them escaped",
    set(INDEX, "arrays.1.name", new Raw('"\\u0077"')),
  );
  for (const value of [undefined, null, 1, ["w"]])
    refused(`name: ${JSON.stringify(value)}`, set(INDEX, "arrays.0.name", value));
  for (const value of [undefined, null, 1])
    refused(`an array that is ${value}`, set(INDEX, "arrays.0", value ?? null));
  test("dtype: int7", "UNSUPPORTED_DTYPE", set(INDEX, "arrays.0.dtype", "int7"));
  refused("shape: [-1]", set(INDEX, "arrays.0.shape", [-1]));
  refused("strides: none", set(INDEX, "arrays.0.strides", undefined));
  refused("an offset outside of the memory", set(INDEX, "arrays.0.byteOffset", 4092));
  refused("an offset that is not aligned", set(INDEX, "arrays.0.byteOffset", 2));
  refused("an offset of 2^60", set(INDEX, "arrays.0.byteOffset", new Raw("1152921504606846976")));
  taken("no arrays", { ...INDEX, arrays: [] }, "");
  taken("arrays that overlap", set(INDEX, "arrays.1.byteOffset", 0));
  taken("a name with a NUL", set(INDEX, "arrays.0.name", "a\0b"), named("a\0b", "b"));
  taken("an empty name", set(INDEX, "arrays.0.name", ""), named("", "b"));
  taken("names that inherit", set(INDEX, "arrays.0.name", "__proto__"), named("__proto__", "b"));
  taken(
    "an emoji, escaped",
    set(INDEX, "arrays.0.name", new Raw('"\\ud83d\\ude00"')),
    named("\u{1f600}", "b"),
  );
  taken(
    "half of a surrogate pair",
    set(INDEX, "arrays.0.name", new Raw('"\\ud800"')),
    named("\ufffd", "b"),
  );
  const keys = text.replace('"k":"v"', '"k":"u","k":"v"');
  test("a key twice: the last one counts", "OK", keys, { count: 2, sees: named("w", "b") });
  taken("numbers by their value", set(INDEX, "arrays.0.byteOffset", new Raw("0.0")));
}

function timelines(): void {
  const call = "timeline";
  const at = `${D}.content.byteOffset`;
  for (const value of [undefined, null, -64, 1, 8, 100, 4096, 4064, "0", 1.5, 2 ** 52, 2 ** 53])
    changed(`byteOffset: ${JSON.stringify(value)}`, call, "INVALID_DESCRIPTOR", { [at]: value });
  const small = { [`${D}.byteLength`]: 32 };
  changed("memory of less than a line", call, "INVALID_DESCRIPTOR", { ...small, [at]: 0 });
  const large = { [`${D}.allocationByteLength`]: 2 ** 20 + 4096 };
  withFds(
    "more memory than timelines may have",
    call,
    "INVALID_DESCRIPTOR",
    [memory(2 ** 20 + 4096)],
    large,
  );
  for (const value of [null, "later", 1])
    changed(`whenOwnerGone: ${value}`, call, "INVALID_DESCRIPTOR", {
      [`${D}.content.whenOwnerGone`]: value,
    });
  changed("whenOwnerGone: wait", call, "OK", { [`${D}.content.whenOwnerGone`]: "wait" });
  changed("an unknown field", call, "INVALID_DESCRIPTOR", { [`${D}.content.more`]: 1 });
  const { descriptor } = goods.array.result as { descriptor: unknown };
  changed("an array", call, "WRONG_KIND", { [D]: descriptor });
}

function channels(): void {
  const call = "reader";
  const C = `${D}.content`;
  changed("as it should be", call, "OK", {});
  changed("as it should be", "writer", "OK", {});
  const each = (field: string, values: readonly unknown[]) => {
    for (const value of values)
      changed(`${field}: ${JSON.stringify(value)}`, call, "INVALID_DESCRIPTOR", {
        [`${C}.${field}`]: value,
      });
  };
  each("dtype", [undefined, null, 1]);
  changed("dtype: int7", call, "INVALID_DESCRIPTOR", { [`${C}.dtype`]: "int7" });
  each("shape", [undefined, null, [2], [-2, -3], [2 ** 52, 2 ** 52], [2, 3, 1, 1, 1, 1, 1, 1, 1]]);
  each("slots", [undefined, 0, -1, 1.5, 3, 65_537, 2 ** 53]);
  each("readersMax", [undefined, 0, 65, -1, "1"]);
  each("slotBytes", [undefined, 0, 23, 28, 2 ** 53]);
  each("slotStride", [undefined, 0, 16, 62, 66, 128, 2 ** 52]);
  each("metaBytesMax", [undefined, -1, 65_537, 1, 64]);
  each("whenFull", [undefined, null, "never", 0, "drop-oldest"]);
  each("whenWriterGone", [undefined, "never", 0]);
  each("more", [1]);
  changed("a slot more than the memory", call, "INVALID_DESCRIPTOR", {
    [`${C}.whenFull`]: "drop-newest",
  });
  changed("memory of more than the slots", call, "INVALID_DESCRIPTOR", {
    [`${D}.byteLength`]: 100,
  });
  for (const place of [undefined, null, -1, 1, 64, 0.5, "0"])
    changed(`place: ${JSON.stringify(place)}`, call, "INVALID_MESSAGE", { "result.place": place });
  for (const other of ["writer", "array", "array to write", "timeline"] as const)
    for (const place of [0, 99, -1, null])
      changed(`place: ${place}`, other, "INVALID_MESSAGE", { "result.place": place });
  const { descriptor } = goods.array.result as { descriptor: unknown };
  changed("an array", call, "WRONG_KIND", { [D]: descriptor });
  for (const role of ["reader", "writer"] as const) {
    const { fds } = goods[role];
    const refused = (what: string, given: readonly (string | HostileFile)[]) =>
      withFds(what, role, "INVALID_DESCRIPTOR", given);
    refused("no descriptors", []);
    refused("a descriptor too few", fds.slice(0, -1));
    refused("a descriptor too many", [...fds, "bell"]);
    for (const [at, part] of [
      "the slots",
      "the control file",
      "the room bell",
      "the page",
      "the bell",
    ].entries())
      for (const name of ["pipe", "/dev/null", at === 2 || at === 4 ? "page" : "bell"])
        refused(`${name} instead of ${part}`, fds.with(at, name));
    const sealed = (part: number, what: string) => {
      const file = files[fds[part] as string] as HostileFile;
      const given = (change: Partial<HostileFile>) =>
        (fds as readonly (string | HostileFile)[]).with(part, { ...file, ...change });
      refused(`${what} that can shrink`, given({ seals: ["grow", "seal"] }));
      refused(`${what} that can grow`, given({ seals: ["shrink", "seal"] }));
      refused(`${what} that is a byte short`, given({ bytes: Number(file.bytes) - 1 }));
      if (part > 0) refused(`${what} that is longer`, given({ bytes: Number(file.bytes) + 4096 }));
    };
    sealed(0, "slots");
    sealed(1, "a control file");
    sealed(3, "a page");
  }
  const word = (what: string, verdict: string, change: (view: DataView) => void) =>
    withFds(
      `control file: ${what}`,
      call,
      verdict,
      goods.reader.fds.with(1, "").map((fd) => (fd === "" ? control(change) : fd)) as never,
    );
  word("no magic", "INVALID_DESCRIPTOR", (view) => view.setUint32(words.magic, 0));
  word("version 2", "PROTOCOL_MISMATCH", (view) => view.setUint32(words.version, 2, true));
  for (const name of [
    "slots",
    "readersMax",
    "metaBytesMax",
    "headersAt",
    "headerStride",
    "whenFull",
    "whenWriterGone",
  ] as const)
    word(`another ${name}`, "INVALID_DESCRIPTOR", (view) =>
      view.setUint32(words[name], view.getUint32(words[name], true) + 1, true),
    );
  for (const name of ["slotBytes", "slotStride"] as const)
    word(`another ${name}`, "INVALID_DESCRIPTOR", (view) =>
      view.setBigUint64(words[name], view.getBigUint64(words[name], true) + 64n, true),
    );
  word("a first position of 2^63", "INVALID_DESCRIPTOR", (view) =>
    view.setBigUint64(words.firstPosition, 2n ** 63n, true),
  );
}

function lists(): void {
  const call = "list";
  const { descriptor } = goods.array.result as { descriptor: unknown };
  const entry = {
    name: "frame",
    object: 3,
    published: true,
    lifetime: "held",
    sharing: { with: "private", access: "read" },
    leases: 1,
    ownerPid: 7,
    ownerUid: 0,
    hasMemory: true,
    createdAtMs: 5,
    unheldSinceMs: null,
    descriptor,
  };
  const objects = [entry];
  changed("an entry", call, "OK", { "result.objects": objects });
  changed("an unknown field", call, "OK", { "result.more": 1 });
  changed("an unknown field of an entry", call, "OK", {
    "result.objects": [{ ...entry, more: 1 }],
  });
  for (const value of [undefined, null, {}, "x", 1])
    changed(`objects: ${JSON.stringify(value)}`, call, "INVALID_MESSAGE", {
      "result.objects": value,
    });
  for (const value of [undefined, 1, {}, true])
    changed(`next: ${JSON.stringify(value)}`, call, "INVALID_MESSAGE", { "result.next": value });
  const bad = (path: string, values: readonly unknown[]) => {
    for (const value of values)
      changed(
        `${path}: ${value === undefined ? "none" : JSON.stringify(value).slice(0, 40)}`,
        call,
        "INVALID_MESSAGE",
        { "result.objects": [set(entry, path, value)] },
      );
  };
  bad("name", [undefined, null, "", 1, "a\0b", "a/b", "x".repeat(256), ".x", "\u00e9"]);
  bad("published", [undefined, 1, "true"]);
  bad("leases", [undefined, -1, 1.5, "1"]);
  bad("ownerPid", [undefined, -1, "7"]);
  for (const field of ["leases", "ownerPid"]) {
    const entries = [set(entry, field, new Raw("1e400"))];
    changed(`${field}: 1e400`, call, "INVALID_MESSAGE", { "result.objects": entries });
  }
  bad("descriptor", [undefined, null, [], {}]);
  bad("descriptor.byteLength", [undefined, -1, "24"]);
  bad("descriptor.content", [undefined, null, {}]);
  bad("descriptor.content.kind", [undefined, "tensor", 1]);
  bad("descriptor.device", [undefined, null, { kind: "tpu" }]);
  changed("an entry that is null", call, "INVALID_MESSAGE", { "result.objects": [null] });
  changed("a next page without a name", call, "INVALID_MESSAGE", { "result.next": "" });
}

/** docs/protocol/vectors/hostile.json */
export function hostileVectors(): object {
  all.length = 0;
  packets();
  replies();
  descriptors();
  memories();
  bundles();
  timelines();
  channels();
  lists();
  return { files, vectors: all };
}

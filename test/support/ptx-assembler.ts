/** Translates the PTX of one kernel into steps that ptx-machine.ts runs. */
import {
  arithmetic,
  convert,
  fromBits,
  immediate,
  isFloat,
  readAs,
  relations,
  stored,
  type Type,
  toBits,
  typeOf,
  unknown,
  type Value,
  wideArithmetic,
  writeAs,
} from "./ptx-values.js";

export interface Thread {
  readonly registers: Value[];
  readonly specials: Readonly<Record<string, number>>;
  readonly shared: DataView;
  at: number;
  state: "running" | "waiting" | "done";
}

export type Step = (thread: Thread) => void;

/** Memory that kernels may touch. */
export interface PtxMemory {
  /** The bytes at an address, or an error. */
  at(
    address: bigint,
    byteLength: number,
    access: "read" | "write",
  ): { readonly view: DataView; readonly offset: number };
}

export interface Program {
  readonly steps: Step[];
  readonly registerCount: number;
  readonly sharedBytes: number;
}

/** Turns the text of one kernel into steps. */
export class Assembler {
  readonly #args: ReadonlyMap<string, Uint8Array>;
  readonly #memory: PtxMemory;
  readonly #registers = new Map<
    string,
    { readonly index: number; readonly type: Type | undefined }
  >();
  readonly #labels = new Map<string, number>();
  readonly #shared = new Map<string, number>();
  #sharedBytes = 0;

  constructor(args: ReadonlyMap<string, Uint8Array>, memory: PtxMemory) {
    this.#args = args;
    this.#memory = memory;
  }

  assemble(text: string): Program {
    const lines = text
      .replace(/(\w+):/g, "$1:;")
      .split(";")
      .map((it) => it.trim().replace(/\s+/g, " "));
    const instructions: string[] = [];
    for (const line of lines) {
      if (line.startsWith(".")) this.#declare(line);
      else if (line.endsWith(":")) this.#labels.set(line.slice(0, -1), instructions.length);
      else if (line !== "") instructions.push(line);
    }
    const steps = instructions.map((it) => this.#guarded(it));
    return { steps, registerCount: this.#registers.size, sharedBytes: this.#sharedBytes };
  }

  #declare(line: string): void {
    const shared = /^\.shared \.align 8 \.b8 (\w+)\[(\d+)\]$/.exec(line);
    if (shared !== null) {
      this.#shared.set(shared[1] as string, this.#sharedBytes);
      this.#sharedBytes += Number(shared[2]);
      return;
    }
    const [, type = "", names = ""] = /^\.reg \.(\w+) (.+)$/.exec(line) ?? unknown(line);
    for (const name of names.split(", ")) {
      if (this.#registers.has(name)) throw new Error(`${name} is declared twice`);
      this.#registers.set(name, {
        index: this.#registers.size,
        type: type === "pred" ? undefined : typeOf(type),
      });
    }
  }

  #guarded(line: string): Step {
    const [, not, name, rest] = /^@(!?)(%\w+) (.+)$/.exec(line) ?? [];
    if (name === undefined) return this.#instruction(line);
    const { index } = this.#register(name);
    const step = this.#instruction(rest as string);
    const wanted = not !== "!";
    return (thread) => {
      if (thread.registers[index] === wanted) step(thread);
    };
  }

  #instruction(line: string): Step {
    const [opcode = "", ...rest] = line.split(" ");
    const operands = rest.join(" ").split(", ");
    const [name = "", ...modifiers] = opcode.split(".");
    switch (name) {
      case "ret":
        return (thread) => {
          thread.state = "done";
        };
      case "bar":
        return (thread) => {
          thread.state = "waiting";
        };
      case "bra": {
        const target = this.#labels.get(operands[0] as string) ?? unknown(line);
        return (thread) => {
          thread.at = target as number;
        };
      }
      case "ld":
        return this.#load(modifiers, operands);
      case "st":
        return this.#store(modifiers, operands);
      default:
        return this.#compute(name, modifiers, operands, line);
    }
  }

  #load([space = "", type = ""]: string[], [to = "", from = ""]: string[]): Step {
    const { name, offset } = addressOperand(from);
    const wanted = typeOf(type);
    const write = this.#write(to, wanted);
    if (space === "param") {
      const bytes = this.#args.get(name) ?? unknown(from);
      const value = readAs(wanted, new DataView((bytes as Uint8Array).slice().buffer), 0);
      return (thread) => write(thread, value);
    }
    const read = this.#read(name, typeOf(space === "shared" ? "u32" : "u64"));
    if (space === "shared") {
      return (thread) =>
        write(thread, readAs(wanted, thread.shared, (read(thread) as number) + offset));
    }
    return (thread) => {
      const found = this.#memory.at(
        (read(thread) as bigint) + BigInt(offset),
        wanted.bits / 8,
        "read",
      );
      write(thread, readAs(wanted, found.view, found.offset));
    };
  }

  #store([space = "", type = ""]: string[], [to = "", from = ""]: string[]): Step {
    const { name, offset } = addressOperand(to);
    const wanted = typeOf(type);
    const value = this.#read(from, wanted);
    const read = this.#read(name, typeOf(space === "shared" ? "u32" : "u64"));
    if (space === "shared") {
      return (thread) =>
        writeAs(wanted, thread.shared, (read(thread) as number) + offset, value(thread));
    }
    return (thread) => {
      const found = this.#memory.at(
        (read(thread) as bigint) + BigInt(offset),
        wanted.bits / 8,
        "write",
      );
      writeAs(wanted, found.view, found.offset, value(thread));
    };
  }

  #compute(name: string, modifiers: string[], operands: string[], line: string): Step {
    const type = typeOf(modifiers.at(-1) ?? "");
    if (name === "setp") return this.#compare(modifiers[0] as string, type, operands, line);
    if (name === "cvt") {
      const target = typeOf(modifiers.at(-2) ?? "");
      const [write, read] = [
        this.#write(operands[0] as string, target),
        this.#read(operands[1] as string, type),
      ];
      return (thread) => write(thread, convert(read(thread) as number | bigint, type, target));
    }
    const wide = modifiers.includes("wide");
    const result = wide ? { ...type, bits: 2 * type.bits } : type;
    const write = this.#write(operands[0] as string, result);
    if (name === "selp") {
      const [, a = "", b = "", p = ""] = operands;
      const [readA, readB, { index }] = [
        this.#read(a, type),
        this.#read(b, type),
        this.#register(p),
      ];
      return (thread) => write(thread, (thread.registers[index] === true ? readA : readB)(thread));
    }
    const sources = operands.slice(1).map((it, i) => this.#read(it, i === 2 ? result : type));
    const [a, b, c] = sources as [(t: Thread) => Value, (t: Thread) => Value, (t: Thread) => Value];
    if (name === "mov" || name === "cvta") return (thread) => write(thread, a(thread));
    if (name === "abs") return (thread) => write(thread, Math.abs(a(thread) as number));
    const compute = wide ? wideArithmetic[name] : arithmetic(name, type);
    if (compute === undefined) return unknown(line);
    if (c === undefined)
      return (thread) => write(thread, compute(a(thread) as never, b(thread) as never, 0 as never));
    return (thread) =>
      write(thread, compute(a(thread) as never, b(thread) as never, c(thread) as never));
  }

  #compare(
    relation: string,
    type: Type,
    [to = "", left = "", right = ""]: string[],
    line: string,
  ): Step {
    const { index } = this.#register(to);
    const [a, b] = [this.#read(left, type), this.#read(right, type)];
    const compare = relations[relation] ?? unknown(line);
    const signed = (value: Value) =>
      type.kind === "s" ? BigInt.asIntN(type.bits, value as bigint) : value;
    return (thread) => {
      thread.registers[index] = (compare as (a: Value, b: Value) => boolean)(
        signed(a(thread)),
        signed(b(thread)),
      );
    };
  }

  /**
   * The operand's value as the type: floats as numbers, 64-bit integers as unsigned bigints, others
   * as unsigned numbers.
   */
  #read(operand: string, type: Type): (thread: Thread) => Value {
    if (/^%n?(tid|ctaid)\.x$/.test(operand)) return (thread) => thread.specials[operand] as number;
    const label = this.#shared.get(operand);
    if (label !== undefined) return () => label;
    if (!operand.startsWith("%")) {
      const value = immediate(operand, type);
      return () => value;
    }
    const { index, type: declared } = this.#register(operand);
    if (declared === undefined || isFloat(declared) === isFloat(type)) {
      if (declared !== undefined && declared.bits > type.bits && !isFloat(type)) {
        return (thread) => stored(type, thread.registers[index] as number | bigint);
      }
      return (thread) => defined(thread.registers[index], operand);
    }
    return (thread) => fromBits(type, toBits(declared, thread.registers[index] as number | bigint));
  }

  #write(operand: string, type: Type): (thread: Thread, value: Value) => void {
    const { index, type: declared } = this.#register(operand);
    if (declared === undefined) throw new Error(`${operand} is a predicate`);
    if (declared.bits < type.bits) throw new Error(`${operand} is too narrow`);
    if (isFloat(declared) !== isFloat(type) && !(type.kind === "b" || declared.kind === "b")) {
      throw new Error(`${operand} is of another type`);
    }
    if (isFloat(declared) === isFloat(type)) {
      if (isFloat(type)) {
        return (thread, value) => {
          thread.registers[index] = value;
        };
      }
      return (thread, value) => {
        const extended =
          type.kind === "s" ? BigInt.asIntN(type.bits, BigInt(value)) : (value as number | bigint);
        thread.registers[index] = stored(declared, extended);
      };
    }
    return (thread, value) => {
      thread.registers[index] = fromBits(declared, toBits(type, value as number | bigint));
    };
  }

  #register(name: string): { readonly index: number; readonly type: Type | undefined } {
    return this.#registers.get(name) ?? (unknown(name) as never);
  }
}

function addressOperand(text: string): { readonly name: string; readonly offset: number } {
  const [, name, offset] = /^\[([%\w]+)(?:\+(\d+))?\]$/.exec(text) ?? unknown(text);
  return { name: name as string, offset: Number(offset ?? 0) };
}

function defined(value: Value | undefined, operand: string): Value {
  return value ?? unknown(`${operand}, which has no value yet`);
}

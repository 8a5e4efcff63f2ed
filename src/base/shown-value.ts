/** Describes a caller's value on one short line of an error message. */

const SHOWN_MAX = 60;

export function shownValue(value: unknown): string {
  switch (typeof value) {
    case "string":
      return clip(JSON.stringify(value));
    case "bigint":
      return `${value}n`;
    case "function":
      return "a function";
    case "symbol":
      return "a symbol";
    case "object":
      return value === null ? "null" : clip(shownObject(value));
    default:
      return String(value);
  }
}

function shownObject(value: object): string {
  // The bundler puts an underscore before some names.
  const name: unknown = Object.getPrototypeOf(value)?.constructor?.name ?? "Object";
  const type = String(name).replace(/^_/, "");
  if (type !== "Object" && type !== "Array") return `an object of class ${type}`;
  try {
    return JSON.stringify(value) ?? "an object";
  } catch {
    // It has a cycle or a bigint. Its contents matter less than the sentence around them.
    return type === "Array" ? "an array" : "an object";
  }
}

function clip(text: string): string {
  return text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}...` : text;
}

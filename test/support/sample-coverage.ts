/** Finds fields and choices of a schema that no sample has, so a new field needs a sample. */
import * as v from "valibot";

interface Node {
  readonly type: string;
  readonly entries?: Readonly<Record<string, v.GenericSchema>>;
  readonly wrapped?: v.GenericSchema;
  readonly item?: v.GenericSchema;
  readonly options?: readonly unknown[];
}

/** The places in the schema that the values do not reach, such as `descriptor.content: array`. */
export function uncovered(
  schema: v.GenericSchema,
  values: readonly unknown[],
  at = "message",
): string[] {
  const node = schema as unknown as Node;
  if (node.wrapped !== undefined) {
    const there = values.filter((value) => value !== undefined && value !== null);
    return uncovered(node.wrapped, there, at);
  }
  if (values.length === 0) return [at];
  if (node.entries !== undefined) {
    return Object.entries(node.entries).flatMap(([key, entry]) => {
      const there = values.flatMap((value) =>
        Object.hasOwn(value as object, key) ? [(value as Record<string, unknown>)[key]] : [],
      );
      return uncovered(entry, there, `${at}.${key}`);
    });
  }
  if (node.item !== undefined) {
    const { item } = node;
    return uncovered(
      item,
      values.flatMap((value) => value as unknown[]),
      `${at}[]`,
    );
  }
  if (node.type === "variant" || node.type === "union") {
    return (node.options as readonly v.GenericSchema[]).flatMap((option, index) =>
      uncovered(
        option,
        values.filter((value) => v.is(option, value)),
        `${at}: choice ${index + 1}`,
      ),
    );
  }
  if (node.type === "picklist") {
    return (node.options ?? [])
      .filter((option) => !values.includes(option))
      .map((option) => `${at}: ${option}`);
  }
  return [];
}

/** Documents with one value replaced, removed or added. */
import fc from "fast-check";

export function spoiled(originals: readonly object[]): fc.Arbitrary<Record<string, unknown>> {
  return fc
    .tuple(
      fc.constantFrom(...originals),
      fc.nat(),
      fc.option(fc.jsonValue(), { nil: undefined }),
      fc.boolean(),
    )
    .map(([original, at, value, add]) => {
      const copy = structuredClone(original) as unknown as Record<string, unknown>;
      const places: [Record<string, unknown>, string][] = [];
      const walk = (node: unknown) => {
        if (typeof node !== "object" || node === null) return;
        for (const key of Object.keys(node)) {
          places.push([node as Record<string, unknown>, key]);
          walk((node as Record<string, unknown>)[key]);
        }
      };
      walk(copy);
      const [holder, key] = places[at % places.length] as [Record<string, unknown>, string];
      if (add) holder[`${key}x`] = value ?? 1;
      else if (value === undefined) delete holder[key];
      else holder[key] = value;
      return copy;
    });
}

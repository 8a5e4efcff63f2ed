/** Grafana's own types of a dashboard, as they are in JSON. */
import type * as dashboard from "@grafana/grafana-foundation-sdk/dashboard";
import type * as prometheus from "@grafana/grafana-foundation-sdk/prometheus";
import type * as stat from "@grafana/grafana-foundation-sdk/stat";
import type * as table from "@grafana/grafana-foundation-sdk/table";
import type * as timeseries from "@grafana/grafana-foundation-sdk/timeseries";

type IsAny<T> = 0 extends 1 & T ? true : false;
type Numeral<T extends number> = `${T}` extends `${infer N extends number}` ? N : never;

/** A type in JSON: an enum becomes the union of its values, and methods are left out. */
type Json<T> =
  IsAny<T> extends true
    ? unknown
    : T extends string
      ? `${T}`
      : T extends number
        ? Numeral<T>
        : T extends readonly (infer Item)[]
          ? Json<Item>[]
          : T extends object
            ? { [Key in keyof T as T[Key] extends () => void ? never : Key]: Json<T[Key]> }
            : T;

/** A type whose parts have defaults: Grafana fills in what is missing. */
type Filled<T> = T extends readonly unknown[]
  ? T
  : T extends object
    ? { [Key in keyof T]?: Filled<T[Key]> }
    : T;

interface FieldConfig<Custom> {
  defaults: Omit<Json<dashboard.FieldConfig>, "custom"> & { custom?: Filled<Json<Custom>> };
  overrides: Json<dashboard.FieldConfigSource["overrides"]>;
}

interface Panel<Type extends string, Options, Custom>
  extends Omit<Json<dashboard.Panel>, "type" | "options" | "fieldConfig" | "targets"> {
  type: Type;
  options: Filled<Json<Options>>;
  fieldConfig: FieldConfig<Custom>;
  targets: Json<prometheus.Dataquery>[];
}

/** With the kinds of panels that ours has. */
export interface GrafanaDashboard extends Omit<Json<dashboard.Dashboard>, "panels"> {
  panels: (
    | Panel<"stat", stat.Options, Record<string, never>>
    | Panel<"timeseries", timeseries.Options, timeseries.FieldConfig>
    | Panel<"table", table.Options, table.FieldConfig>
    | Json<dashboard.RowPanel>
  )[];
}

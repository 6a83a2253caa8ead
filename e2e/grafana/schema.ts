// SPDX-License-Identifier: Apache-2.0
// A dashboard by Grafana's own types. What satisfies the type has no field and no value that Grafana
// does not know.
import type {
  Dashboard,
  DataQuery,
  FieldConfig,
  FieldConfigSource,
  Panel,
  VariableModel,
} from "@grafana/schema";
import type { Options as Stat } from "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type {
  FieldConfig as Lines,
  Options as TimeSeries,
} from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";

/** A document has the values of enumerations as texts. */
type Written<T> = T extends string
  ? `${T}`
  : T extends object
    ? { [K in keyof T]: Written<T[K]> }
    : T;

/** Grafana fills in options that are missing. */
type Some<T> = T extends object ? { [K in keyof T]?: Some<T[K]> } : T;

/** A query of Prometheus: the package has no type for it. */
interface Query extends DataQuery {
  expr: string;
  legendFormat?: string;
}

interface Of<Type extends string, Options, Custom>
  extends Omit<Panel, "type" | "options" | "targets" | "fieldConfig"> {
  type: Type;
  options: Some<Options>;
  targets: Query[];
  fieldConfig: {
    defaults: Omit<FieldConfig, "custom"> & { custom?: Some<Custom> };
    overrides: FieldConfigSource["overrides"];
  };
}

type Known = Of<"stat", Stat, never> | Of<"timeseries", TimeSeries, Lines>;

/** Grafana writes the text of a query here too, to show it; the types do not have it. */
interface Variable extends VariableModel {
  definition?: string;
}

interface Whole extends Omit<Dashboard, "panels" | "templating"> {
  panels: Known[];
  templating: { list: Variable[] };
}

export type Document = Written<Whole>;

// What this plugin uses of Grafana: only what every Grafana from 7.5 to 13 gives to
// plugins. Declared here, so that anything else does not compile; the loader test
// holds the names against the lists of what 7.5.17 and 13.2.3 export.

declare module '@grafana/data' {
  import { ComponentType } from 'react';
  export interface SelectableValue<T = any> {
    label?: string;
    value?: T;
    description?: string;
  }
  export interface DataQuery {
    refId: string;
    hide?: boolean;
    queryType?: string;
  }
  export interface ScopedVars {
    [name: string]: { text: any; value: any } | undefined;
  }
  export interface MetricFindValue {
    text: string;
    value?: string;
  }
  export interface DataSourceInstanceSettings {
    id: number;
    uid: string;
    name: string;
  }
  export interface DataSourcePluginOptionsEditorProps<O, S> {
    options: {
      jsonData: O;
      secureJsonData?: Partial<S>;
      secureJsonFields?: { [name: string]: boolean | undefined };
      [other: string]: any;
    };
    onOptionsChange(options: DataSourcePluginOptionsEditorProps<O, S>['options']): void;
  }
  export interface QueryEditorProps<D, Q> {
    datasource: D;
    query: Q;
    onChange(query: Q): void;
    onRunQuery(): void;
  }
  export class DataSourcePlugin {
    constructor(datasource: any);
    setConfigEditor(editor: ComponentType<any>): this;
    setQueryEditor(editor: ComponentType<any>): this;
    setVariableQueryEditor(editor: ComponentType<any>): this;
  }
}

declare module '@grafana/runtime' {
  import { DataQuery, DataSourceInstanceSettings, ScopedVars } from '@grafana/data';
  export class DataSourceWithBackend<Q extends DataQuery> {
    constructor(settings: DataSourceInstanceSettings);
    uid: string;
    query(request: any): any;
  }
  export function getTemplateSrv(): {
    replace(text: string, scopedVars?: ScopedVars, format?: (value: any) => string): string;
    getVariables(): Array<{ name: string }>;
  };
}

declare module '@grafana/ui' {
  import { ComponentType, ReactNode } from 'react';
  export const Alert: ComponentType<{ title: string; severity?: string; children?: ReactNode }>;
  export const Button: ComponentType<any>;
  export const InlineField: ComponentType<{ label?: string; labelWidth?: number; tooltip?: string; grow?: boolean; children: ReactNode }>;
  export const InlineFieldRow: ComponentType<{ children?: ReactNode }>;
  export const Input: ComponentType<any>;
  export const MultiSelect: ComponentType<any>;
  export const RadioButtonGroup: ComponentType<any>;
  export const Select: ComponentType<any>;
  export const Switch: ComponentType<any>;
  export const TextArea: ComponentType<any>;
}

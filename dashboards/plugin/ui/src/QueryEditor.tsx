import React, { useEffect, useState } from 'react';
import { QueryEditorProps } from '@grafana/data';
import { getTemplateSrv } from '@grafana/runtime';
import { InlineField, InlineFieldRow, Input, MultiSelect, RadioButtonGroup, Select, TextArea } from '@grafana/ui';
import { DataSource } from './datasource';
import { Filter, Query, columns, complete, dimensions, filtered, sources, types, views } from './types';

type Props = QueryEditorProps<DataSource, Query>;

/** The builder of a query: what is asked, how it is shown, of what. */
export function QueryEditor({ datasource, query, onChange, onRunQuery }: Props) {
  const q = complete(query);
  const set = (change: Partial<Query>, run = true) => {
    onChange(complete({ ...q, ...change }));
    if (run) {
      onRunQuery();
    }
  };
  const type = q.queryType as string;
  return (
    <div>
      <InlineFieldRow>
        <InlineField label="Ask for" labelWidth={14}>
          <Select inputId="query-type" aria-label="Ask for" width={28} options={types} value={type} onChange={(v: any) => set({ queryType: v.value, view: undefined })} />
        </InlineField>
        {views[type] && views[type].length > 1 && (
          <InlineField label="Show" labelWidth={10}>
            <RadioButtonGroup options={views[type].map(({ value, label }) => ({ value, label }))} value={q.view} onChange={(view: string) => set({ view })} />
          </InlineField>
        )}
      </InlineFieldRow>
      <Own q={q} set={set} run={onRunQuery} />
      {filtered.indexOf(type) >= 0 && <Filters datasource={datasource} filter={q.filter || {}} onChange={(filter) => set({ filter })} />}
    </div>
  );
}

interface Part {
  q: Query;
  set(change: Partial<Query>, run?: boolean): void;
  run(): void;
}

/** What only some types have. */
function Own({ q, set, run }: Part) {
  switch (q.queryType) {
    case 'benefit':
    case 'stages':
      return (
        <InlineFieldRow>
          <InlineField label="By" labelWidth={14}>
            <Select inputId="query-by" aria-label="By" width={28} options={dimensions} value={q.by || ''} onChange={(v: any) => set({ by: v.value || undefined })} />
          </InlineField>
          {q.queryType === 'benefit' && q.view === 'series' && (
            <InlineField label="From" labelWidth={10}>
              <RadioButtonGroup options={sources} value={q.source || 'predicted'} onChange={(source: string) => set({ source })} />
            </InlineField>
          )}
        </InlineFieldRow>
      );
    case 'decisions':
      return (
        <InlineField label="At most" labelWidth={14}>
          <Input id="query-limit" aria-label="At most" type="number" min={1} max={10000} width={28} placeholder="100" value={q.limit || ''} onChange={(e: any) => set({ limit: number(e.target.value) }, false)} onBlur={run} />
        </InlineField>
      );
    case 'request':
      return (
        <InlineField label="Request" labelWidth={14} tooltip="A request id, or the 32 hex digits of a row id or trace id; variables such as $request work too">
          <Input id="query-request" aria-label="Request" width={56} placeholder="$request" value={q.request || ''} onChange={(e: any) => set({ request: e.target.value }, false)} onBlur={run} />
        </InlineField>
      );
    case 'sql':
      return (
        <InlineField label="SQL" labelWidth={14} grow tooltip="$__timeFilter(column), $__interval, $__interval_s, $__from, $__to, $__fromTime and $__toTime are put in. Reading only; rows and time are limited.">
          <TextArea
            id="query-sql"
            aria-label="SQL"
            rows={8}
            placeholder="SELECT minute AS time, sum(n) AS requests FROM slices FINAL WHERE $__timeFilter(minute) GROUP BY time ORDER BY time"
            value={q.sql || ''}
            onChange={(e: any) => set({ sql: e.target.value }, false)}
            onBlur={run}
          />
        </InlineField>
      );
  }
  return null;
}

const number = (text: string): number | undefined => (text === '' || isNaN(Number(text)) ? undefined : Number(text));

interface FiltersProps {
  datasource: DataSource;
  filter: Filter;
  onChange(filter: Filter): void;
}

function Filters({ datasource, filter, onChange }: FiltersProps) {
  return (
    <InlineFieldRow>
      {columns.map((column) => (
        <InlineField key={column} label={column} labelWidth={14}>
          <Values datasource={datasource} column={column} values={([] as string[]).concat(filter[column] || [])} onChange={(values) => onChange({ ...filter, [column]: values.length > 0 ? values : undefined })} />
        </InlineField>
      ))}
    </InlineFieldRow>
  );
}

interface ValuesProps {
  datasource: DataSource;
  column: string;
  values: string[];
  onChange(values: string[]): void;
}

/** Values of a column: variables of the dashboard, those that were seen, or any. */
function Values({ datasource, column, values, onChange }: ValuesProps) {
  const [seen, setSeen] = useState<Array<{ value: string; label: string }>>([]);
  const load = () => {
    datasource.metricFindQuery({ of: column } as Partial<Query>).then(
      (found) => setSeen(found.map((v) => ({ value: String(v.value), label: v.text }))),
      () => setSeen([]) // what is typed counts all the same
    );
  };
  useEffect(() => setSeen([]), [datasource.uid]);
  const options = getTemplateSrv()
    .getVariables()
    .map((v) => ({ value: '$' + v.name, label: '$' + v.name }))
    .concat(seen);
  return (
    <MultiSelect
      inputId={'filter-' + column}
      aria-label={column}
      width={28}
      allowCustomValue
      placeholder="all"
      options={options}
      value={values.map((v) => options.find((o) => o.value === v) || { value: v, label: v })}
      onOpenMenu={load}
      onChange={(chosen: any[]) => onChange((chosen || []).map((c) => c.value))}
      onCreateOption={(v: string) => onChange(values.concat(v))}
    />
  );
}

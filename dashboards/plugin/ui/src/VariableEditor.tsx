import React from 'react';
import { InlineField, Select } from '@grafana/ui';
import { Query, columns } from './types';

interface Props {
  query: string | Partial<Query>;
  onChange(query: Partial<Query>, definition: string): void;
}

/** Which column's values a dashboard variable takes. */
export function VariableEditor({ query, onChange }: Props) {
  const of = typeof query === 'string' ? query : (query && query.of) || '';
  return (
    <InlineField label="Values of" labelWidth={16} tooltip="All that were seen in the dashboard's time range">
      <Select
        inputId="variable-of"
        aria-label="Values of"
        width={24}
        options={columns.map((c) => ({ value: c, label: c }))}
        value={of || null}
        placeholder="choose"
        onChange={(v: any) => onChange({ refId: 'variable', queryType: 'variable', of: v.value }, 'values of ' + v.value)}
      />
    </InlineField>
  );
}

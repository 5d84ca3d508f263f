import { DataSourceInstanceSettings, MetricFindValue, ScopedVars } from '@grafana/data';
import { DataSourceWithBackend, getTemplateSrv } from '@grafana/runtime';
import { Filter, Query, columns, complete } from './types';

// Macros of SQL that Grafana has variables of the same name for. The backend expands
// them, for Grafana's text, such as 30s, is no interval of SQL.
const kept: ScopedVars = {};
for (const name of ['__interval', '__interval_ms', '__interval_s', '__from', '__to']) {
  kept[name] = { text: '$' + name, value: '$' + name };
}

const quoted = (value: any) => "'" + String(value).replace(/\\/g, '\\\\').replace(/'/g, "\\'") + "'";

/** The values of a text that is a variable, or the text with its variables put in. */
export function valuesOf(text: string, scopedVars?: ScopedVars): string[] {
  const values: string[] = [];
  const rest = getTemplateSrv().replace(text, scopedVars, (value: any) => {
    values.push(...(Array.isArray(value) ? value : [value]).map(String));
    return '';
  });
  if (values.length > 0 && rest.trim() === '') {
    return values;
  }
  return [getTemplateSrv().replace(text, scopedVars)];
}

export class DataSource extends DataSourceWithBackend<Query> {
  // Annotations are queries like any other, and their frames have the usual columns.
  annotations = {};

  constructor(settings: DataSourceInstanceSettings) {
    super(settings);
  }

  filterQuery(query: Query): boolean {
    const q = complete(query);
    return !q.hide && !(q.queryType === 'sql' && !q.sql) && !(q.queryType === 'request' && !q.request);
  }

  applyTemplateVariables(query: Query, scopedVars: ScopedVars): Query {
    const q = complete(query);
    const filter: Filter = {};
    for (const column of columns) {
      const list = (q.filter && q.filter[column]) || [];
      const values = ([] as string[]).concat(list).reduce((all, text) => all.concat(valuesOf(text, scopedVars)), [] as string[]);
      if (values.length > 0) {
        filter[column] = values;
      }
    }
    const replace = (text?: string) => (text ? getTemplateSrv().replace(text, scopedVars) : text);
    return {
      ...q,
      filter,
      by: replace(q.by),
      request: replace(q.request),
      sql: q.sql ? getTemplateSrv().replace(q.sql, { ...scopedVars, ...kept }, (v: any) => (Array.isArray(v) ? v.map(quoted).join(', ') : String(v))) : q.sql,
    };
  }

  /** The values of a dashboard variable: { of: 'link' }, or the text link. */
  metricFindQuery(asked: string | Partial<Query>, options?: any): Promise<MetricFindValue[]> {
    const query: any = typeof asked === 'string' ? { of: asked.trim() } : asked || {};
    const now = Date.now();
    const range = (options && options.range) || { from: moment(now - 24 * 3600 * 1000), to: moment(now), raw: { from: 'now-24h', to: 'now' } };
    const request = {
      requestId: 'kvwhatif-variable-' + query.of,
      app: 'dashboard',
      targets: [{ ...query, refId: 'variable', queryType: query.queryType || 'variable' }],
      range,
      rangeRaw: range.raw,
      interval: '1m',
      intervalMs: 60000,
      maxDataPoints: 1000,
      scopedVars: (options && options.scopedVars) || {},
      timezone: 'utc',
      startTime: now,
    };
    return new Promise((resolve, reject) => {
      this.query(request).subscribe({
        next: (response: any) => (response.error ? reject(response.error) : resolve(findValues(response.data || []))),
        error: reject,
        complete: () => resolve([]),
      });
    });
  }
}

// An instant as Grafana's requests hold it, of which only valueOf is read here.
function moment(at: number) {
  return { valueOf: () => at, toISOString: () => new Date(at).toISOString() };
}

/** Text and value of each row; a frame's first column is both where it has one only. */
export function findValues(frames: any[]): MetricFindValue[] {
  const out: MetricFindValue[] = [];
  for (const frame of frames) {
    const fields: any[] = frame.fields || [];
    const text = fields.find((f) => f.name === 'text') || fields[0];
    const value = fields.find((f) => f.name === 'value') || text;
    for (let i = 0; text && i < frame.length; i++) {
      out.push({ text: String(at(text.values, i)), value: String(at(value.values, i)) });
    }
  }
  return out;
}

// Values were Vectors until Grafana 10, and are arrays since.
function at(values: any, i: number): any {
  return typeof values.get === 'function' ? values.get(i) : values[i];
}

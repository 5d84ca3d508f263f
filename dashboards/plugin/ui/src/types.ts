import { DataQuery } from '@grafana/data';

/** What of a request a question is limited to; lists may hold variables such as $link. */
export interface Filter {
  policy?: string[];
  model?: string[];
  path?: string[];
  tier?: string[];
  link?: string[];
  size?: string[];
}

/** A query as it is saved in a dashboard: query.Question of the backend. */
export interface Query extends DataQuery {
  queryType?: string;
  view?: string;
  by?: string;
  source?: string;
  filter?: Filter;
  limit?: number;
  request?: string;
  sql?: string;
  of?: string;
}

/** Settings that everybody who may look at the data source can read. */
export interface Options {
  protocol?: string;
  host?: string;
  port?: number;
  secure?: boolean;
  tlsSkipVerify?: boolean;
  serverName?: string;
  database?: string;
  username?: string;
  rowLimit?: number;
  timeout?: number;
}

/** Secrets, which only the backend can read. */
export interface Secrets {
  password?: string;
  tlsCACert?: string;
  tlsClientCert?: string;
  tlsClientKey?: string;
}

interface Choice {
  value: string;
  label: string;
  description: string;
}

const choice = (value: string, label: string, description = ''): Choice => ({ value, label, description });

export const types = [
  choice('verdict', 'Verdict', 'Does reuse help, hurt, or is it unknown: the last word on each link'),
  choice('benefit', 'Benefit', 'Mean seconds saved, predicted and measured, with intervals'),
  choice('stages', 'Stages of TTFT', 'Where the time to the first token went'),
  choice('links', 'Links', 'What crossed each link, and how full it is'),
  choice('coverage', 'Coverage', 'How much of the traffic the answers rest on'),
  choice('calibration', 'Calibration', 'The coefficients that were published, and how they hold'),
  choice('decisions', 'Decisions', 'Single decisions: the worst, or all'),
  choice('request', 'One request', 'Its stages, its candidates, its replays'),
  choice('annotation', 'Events', 'Publications, rollbacks, refusals and drift'),
  choice('sql', 'SQL', 'A SELECT of your own, with $__timeFilter(column) and $__interval'),
];

const table = choice('table', 'Table');
const series = choice('series', 'Series');

/** Views of each type; the first is the default. */
export const views: { [type: string]: Choice[] } = {
  verdict: [table],
  benefit: [table, series],
  stages: [table, series],
  links: [table, series],
  coverage: [table, series, choice('legs', 'Replays by size')],
  calibration: [choice('document', 'Document'), choice('terms', 'Laws'), choice('history', 'History'), choice('series', 'Error'), choice('coordinators', 'Coordinators')],
  decisions: [choice('worst', 'Worst'), choice('all', 'All')],
  request: [choice('stages', 'Stages'), choice('facts', 'Facts')],
  annotation: [choice('all', 'All'), choice('publications', 'Publications'), choice('rollbacks', 'Rollbacks'), choice('refusals', 'Refusals'), choice('drift', 'Drift')],
  sql: [table, series],
};

export const dimensions = [
  choice('', 'Nothing'),
  choice('path', 'Path'),
  choice('link', 'Link'),
  choice('tier', 'Tier'),
  choice('size', 'Size'),
  choice('policy', 'Policy'),
  choice('model', 'Model'),
];

export const sources = [choice('predicted', 'Predicted', 'by the cost model, of all requests'), choice('measured', 'Measured', 'by replays')];

export const columns: Array<keyof Filter> = ['link', 'path', 'tier', 'size', 'policy', 'model'];

/** Types that a filter means something to. */
export const filtered = ['verdict', 'benefit', 'stages', 'links', 'coverage', 'calibration', 'decisions'];

/** A query with the defaults that the backend would take. */
export function complete(q: Query): Query {
  const queryType = q.queryType || 'verdict';
  const known = views[queryType] || [];
  const view = known.some((v) => v.value === q.view) ? q.view : known.length > 0 ? known[0].value : q.view;
  return { ...q, queryType, view };
}

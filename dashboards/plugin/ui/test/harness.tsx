// A stand-in for Grafana in a browser: gives the plugin what one generation of it
// exports, by that generation's module loader and React, and shows its editors.
// Asking for a name that the generation does not export is an error.
import React from 'react';
import exported from './exports.json';
import { mount } from 'mount';

declare const GENERATION: '7.5.17' | '13.2.3';
declare const System: any;

const old = GENERATION === '7.5.17';
const w = window as any;

function label({ label, children }: any) {
  // As Grafana does: the one child is cloned, so nothing else may stand there.
  return (
    <div>
      <label htmlFor={children.props.inputId || children.props.id}>{label}</label>
      {React.cloneElement(React.Children.only(children), { disabled: children.props.disabled })}
    </div>
  );
}

const bare = ({ width, grow, options, ...rest }: any) => rest;

const ui: any = {
  Alert: ({ title, children }: any) => <div role="alert">{title} {children}</div>,
  Button: ({ variant, ...rest }: any) => <button {...rest} />,
  InlineField: label,
  InlineFieldRow: ({ children }: any) => <div>{children}</div>,
  Input: (props: any) => <input {...bare(props)} />,
  TextArea: (props: any) => <textarea {...bare(props)} />,
  Switch: ({ id, value, onChange }: any) => <input type="checkbox" id={id} checked={value} onChange={onChange} />,
  RadioButtonGroup: ({ options, value, onChange }: any) => (
    <span role="radiogroup">
      {options.map((o: any) => (
        <button type="button" key={o.value} role="radio" aria-checked={o.value === value} data-value={o.value} onClick={() => onChange(o.value)}>
          {o.label}
        </button>
      ))}
    </span>
  ),
  Select: ({ inputId, options, value, onChange }: any) => (
    <select id={inputId} value={value === null ? '' : value} onChange={(e) => onChange(options.find((o: any) => o.value === e.target.value) || { value: e.target.value })}>
      {options.concat(options.some((o: any) => o.value === '') ? [] : [{ value: '', label: '' }]).map((o: any) => <option key={o.value} value={o.value}>{o.label}</option>)}
    </select>
  ),
  MultiSelect: ({ inputId, options, value, onChange, onOpenMenu, onCreateOption }: any) => (
    <span>
      <select multiple id={inputId} value={value.map((v: any) => v.value)} onFocus={onOpenMenu}
        onChange={(e) => onChange(Array.from(e.target.selectedOptions).map((o) => ({ value: o.value, label: o.value })))}>
        {options.map((o: any) => <option key={o.value} value={o.value}>{o.label}</option>)}
      </select>
      <input id={inputId + '-custom'} onKeyDown={(e: any) => e.key === 'Enter' && (onCreateOption(e.target.value), (e.target.value = ''))} />
    </span>
  ),
};

class DataSourcePlugin {
  components: any = {};
  constructor(public DataSourceClass: any) {}
  setConfigEditor(c: any) { this.components.ConfigEditor = c; return this; }
  setQueryEditor(c: any) { this.components.QueryEditor = c; return this; }
  setVariableQueryEditor(c: any) { this.components.VariableQueryEditor = c; return this; }
}

// Values of a frame: Vectors in 7.5, arrays in 13.
const values = (list: any[]) => (old ? { get: (i: number) => list[i], toArray: () => list, length: list.length } : list);

class DataSourceWithBackend {
  uid: string;
  constructor(settings: any) { this.uid = settings.uid; }
  query(request: any) {
    w.asked = (w.asked || []).concat(request);
    const data = [{ length: 2, fields: [{ name: 'text', values: values(['spine', '(none)']) }, { name: 'value', values: values(['spine', '(none)']) }] }];
    return { subscribe: (o: any) => { o.next({ data }); o.complete(); } };
  }
}

// Variables of the dashboard, replaced as Grafana does: by the name, with a format
// that is a function called with the raw value.
const variables: any = { link: ['spine', "o'rail"], model: 'm', everything: '*' };
const templateSrv = {
  getVariables: () => Object.keys(variables).map((name) => ({ name })),
  replace: (text: string, scoped: any = {}, format?: any) =>
    String(text).replace(/\$(\w+)|\$\{(\w+)(?::(\w+))?\}/g, (match, a, b, named) => {
      const name = a || b;
      const value = scoped[name] ? scoped[name].value : variables[name];
      if (value === undefined) { return match; }
      if (value === '*') { return value; }
      if (named === 'sqlstring') { return [].concat(value).map((v: any) => "'" + String(v).replace(/'/g, "''") + "'").join(','); }
      return typeof format === 'function' ? format(value) : Array.isArray(value) ? '{' + value.join(',') + '}' : value;
    }),
};

// A name that the generation exports and that has no stand-in: using it is an error.
function unusable(what: string) {
  const refuse = () => { throw new Error('the stand-in for ' + what + ' is missing'); };
  return new Proxy(function () {}, { apply: refuse, construct: refuse, get: refuse });
}

// All that the generation exports by a name, each by its stand-in here; everything
// else is an error.
function only(name: string, have: any) {
  const known = (exported as any)[GENERATION][name].split(' ');
  return new Proxy({}, {
    ownKeys: () => known,
    getOwnPropertyDescriptor: (_, key) => (known.includes(key) ? { configurable: true, enumerable: true, writable: true, value: undefined } : undefined),
    get: (_, key) => {
      if (typeof key === 'symbol' || key === '__esModule' || key === 'then') { return key === '__esModule' ? true : undefined; }
      if (!known.includes(key)) { throw new Error(name + ' of Grafana ' + GENERATION + ' has no ' + String(key)); }
      return key in have ? have[key] : unusable(name + ' ' + String(key)); // loaders read every name
    },
  });
}

const given: any = {
  react: React,
  '@grafana/ui': only('@grafana/ui', ui),
  '@grafana/data': only('@grafana/data', { DataSourcePlugin }),
  '@grafana/runtime': only('@grafana/runtime', { DataSourceWithBackend, getTemplateSrv: () => templateSrv }),
};

async function load() {
  if (old) { // as Grafana 7.5 does
    System.config({ baseURL: '/public', defaultExtension: 'js', packages: { plugins: { defaultExtension: 'js' } }, meta: { '/*': { esModule: true, authorization: true } } });
    for (const name of Object.keys(given)) {
      System.registerDynamic(name, [], true, (_: any, __: any, module: any) => { module.exports = given[name]; });
    }
    return System.import('plugins/kvwhatif-reuse-datasource/module');
  }
  // As Grafana 10 and later do: packages by an import map, and define for plugins only.
  const define = w.define;
  w.define = undefined;
  w.__grafana_amd_define = define;
  for (const name of Object.keys(given)) {
    System.addImportMap({ imports: { [name]: 'package:' + name } });
    System.set('package:' + name, { default: given[name], __useDefault: true });
  }
  const proto = System.constructor.prototype;
  proto.shouldFetch = () => true;
  proto.fetch = async (url: string) => {
    const source = await (await fetch(url)).text();
    return new Response('(function(define) {' + source + '})(window.__grafana_amd_define);', { headers: { 'Content-Type': 'application/javascript' } });
  };
  return System.import('/public/plugins/kvwhatif-reuse-datasource/module.js');
}

function Page({ plugin }: any) {
  const [options, setOptions] = React.useState<any>({ jsonData: {}, secureJsonData: {}, secureJsonFields: { tlsClientKey: true } });
  const [query, setQuery] = React.useState<any>({ refId: 'A' });
  const [variable, setVariable] = React.useState<any>({});
  w.saved = { options, query, variable };
  const { ConfigEditor, QueryEditor, VariableQueryEditor } = plugin.components;
  return (
    <div>
      <section id="config"><ConfigEditor options={options} onOptionsChange={setOptions} /></section>
      <section id="query"><QueryEditor datasource={w.datasource} query={query} onChange={setQuery} onRunQuery={() => { w.runs = (w.runs || 0) + 1; }} /></section>
      <section id="variable"><VariableQueryEditor datasource={w.datasource} query={variable} onChange={(q: any, text: string) => setVariable({ q, text })} /></section>
    </div>
  );
}

function fail(e: any) {
  w.failed = String((e && e.stack) || e);
  document.getElementById('root')!.innerHTML = '<p id="failed"></p>';
}
w.addEventListener('error', (e: any) => fail(e.error || e.message));

load().then((module: any) => {
  const plugin = module.plugin;
  w.datasource = new plugin.DataSourceClass({ id: 1, uid: 'u', name: 'kvwhatif' });
  mount(<Page plugin={plugin} />, document.getElementById('root') as HTMLElement);
  w.reactVersion = React.version;
  w.ready = true;
}).catch(fail);

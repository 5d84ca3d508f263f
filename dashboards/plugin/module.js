/* kvwhatif data source for Grafana 7.5 and later. Apache-2.0. Built by build.mjs of src; do not edit. */
define(["react", "@grafana/data", "@grafana/runtime", "@grafana/ui"], function () {
"use strict";
const given = arguments;
const names = ["react","@grafana/data","@grafana/runtime","@grafana/ui"];
const require = (name) => given[names.indexOf(name)];
const module = { exports: {} };
var __create = Object.create;
var __defProp = Object.defineProperty;
var __getOwnPropDesc = Object.getOwnPropertyDescriptor;
var __getOwnPropNames = Object.getOwnPropertyNames;
var __getProtoOf = Object.getPrototypeOf;
var __hasOwnProp = Object.prototype.hasOwnProperty;
var __export = (target, all) => {
  for (var name in all)
    __defProp(target, name, { get: all[name], enumerable: true });
};
var __copyProps = (to, from, except, desc) => {
  if (from && typeof from === "object" || typeof from === "function") {
    for (let key of __getOwnPropNames(from))
      if (!__hasOwnProp.call(to, key) && key !== except)
        __defProp(to, key, { get: () => from[key], enumerable: !(desc = __getOwnPropDesc(from, key)) || desc.enumerable });
  }
  return to;
};
var __toESM = (mod, isNodeMode, target) => (target = mod != null ? __create(__getProtoOf(mod)) : {}, __copyProps(
  // If the importer is in node compatibility mode or this is not an ESM
  // file that has been converted to a CommonJS file using a Babel-
  // compatible transform (i.e. "__esModule" has not been set), then set
  // "default" to the CommonJS "module.exports" for node compatibility.
  isNodeMode || !mod || !mod.__esModule ? __defProp(target, "default", { value: mod, enumerable: true }) : target,
  mod
));
var __toCommonJS = (mod) => __copyProps(__defProp({}, "__esModule", { value: true }), mod);

// src/module.ts
var module_exports = {};
__export(module_exports, {
  plugin: () => plugin
});
module.exports = __toCommonJS(module_exports);
var import_data = require("@grafana/data");

// src/ConfigEditor.tsx
var import_react = __toESM(require("react"));
var import_ui = require("@grafana/ui");
var protocols = [
  { value: "http", label: "HTTP" },
  { value: "native", label: "Native" }
];
var ports = { httpfalse: 8123, httptrue: 8443, nativefalse: 9e3, nativetrue: 9440 };
function ConfigEditor(props) {
  const { options, onOptionsChange } = props;
  const json = options.jsonData || {};
  const set = (change) => onOptionsChange({ ...options, jsonData: { ...json, ...change } });
  const text = (key) => ({
    id: "config-" + key,
    value: json[key] || "",
    onChange: (e) => set({ [key]: e.target.value || void 0 })
  });
  const whole = (key) => ({
    id: "config-" + key,
    type: "number",
    value: json[key] === void 0 ? "" : json[key],
    onChange: (e) => set({ [key]: e.target.value === "" ? void 0 : Number(e.target.value) })
  });
  return /* @__PURE__ */ import_react.default.createElement("div", null, /* @__PURE__ */ import_react.default.createElement("h3", { className: "page-heading" }, "ClickHouse"), /* @__PURE__ */ import_react.default.createElement(Row, { label: "Protocol", tooltip: "HTTP reaches the database that kvwhatif up starts too; it listens on 127.0.0.1 only" }, /* @__PURE__ */ import_react.default.createElement(import_ui.RadioButtonGroup, { options: protocols, value: json.protocol || "http", onChange: (protocol) => set({ protocol }) })), /* @__PURE__ */ import_react.default.createElement(Row, { label: "Host", tooltip: "Name or address, without protocol and port" }, /* @__PURE__ */ import_react.default.createElement(import_ui.Input, { width: 40, placeholder: "127.0.0.1", ...text("host") })), /* @__PURE__ */ import_react.default.createElement(Row, { label: "Port", tooltip: "Empty: the usual one of the protocol" }, /* @__PURE__ */ import_react.default.createElement(import_ui.Input, { width: 40, placeholder: String(ports[(json.protocol || "http") + String(!!json.secure)]), ...whole("port") })), /* @__PURE__ */ import_react.default.createElement(Row, { label: "Database" }, /* @__PURE__ */ import_react.default.createElement(import_ui.Input, { width: 40, placeholder: "kvwhatif", ...text("database") })), /* @__PURE__ */ import_react.default.createElement(Row, { label: "User", tooltip: "One that may only read: readonly = 2. The embedded database has reader, whose password kvwhatif keeps beside its data." }, /* @__PURE__ */ import_react.default.createElement(import_ui.Input, { width: 40, placeholder: "reader", ...text("username") })), /* @__PURE__ */ import_react.default.createElement(Secret, { name: "password", label: "Password", ...props }), /* @__PURE__ */ import_react.default.createElement("h3", { className: "page-heading" }, "TLS"), /* @__PURE__ */ import_react.default.createElement(Row, { label: "TLS" }, /* @__PURE__ */ import_react.default.createElement(import_ui.Switch, { id: "config-secure", value: !!json.secure, onChange: (e) => set({ secure: e.currentTarget.checked }) })), json.secure && /* @__PURE__ */ import_react.default.createElement(TLS, { ...props }), /* @__PURE__ */ import_react.default.createElement("h3", { className: "page-heading" }, "Limits of a query"), /* @__PURE__ */ import_react.default.createElement(Row, { label: "Rows", tooltip: "1 to 1,000,000" }, /* @__PURE__ */ import_react.default.createElement(import_ui.Input, { width: 40, placeholder: "100000", ...whole("rowLimit") })), /* @__PURE__ */ import_react.default.createElement(Row, { label: "Seconds", tooltip: "1 to 600" }, /* @__PURE__ */ import_react.default.createElement(import_ui.Input, { width: 40, placeholder: "30", ...whole("timeout") })));
}
function TLS(props) {
  const { options, onOptionsChange } = props;
  const json = options.jsonData || {};
  const set = (change) => onOptionsChange({ ...options, jsonData: { ...json, ...change } });
  return /* @__PURE__ */ import_react.default.createElement("div", null, /* @__PURE__ */ import_react.default.createElement(Row, { label: "Server name", tooltip: "The name in the certificate, where it is not the host" }, /* @__PURE__ */ import_react.default.createElement(import_ui.Input, { id: "config-serverName", width: 40, value: json.serverName || "", onChange: (e) => set({ serverName: e.target.value || void 0 }) })), /* @__PURE__ */ import_react.default.createElement(Row, { label: "Any certificate" }, /* @__PURE__ */ import_react.default.createElement(import_ui.Switch, { id: "config-tlsSkipVerify", value: !!json.tlsSkipVerify, onChange: (e) => set({ tlsSkipVerify: e.currentTarget.checked }) })), json.tlsSkipVerify && /* @__PURE__ */ import_react.default.createElement(import_ui.Alert, { title: "Any certificate is taken", severity: "warning" }, "Whoever answers at this address is sent the password."), /* @__PURE__ */ import_react.default.createElement(Secret, { name: "tlsCACert", label: "CA certificate", area: true, ...props }), /* @__PURE__ */ import_react.default.createElement(Secret, { name: "tlsClientCert", label: "Client certificate", area: true, ...props }), /* @__PURE__ */ import_react.default.createElement(Secret, { name: "tlsClientKey", label: "Client key", area: true, ...props }));
}
function Row({ label, tooltip, children }) {
  return /* @__PURE__ */ import_react.default.createElement("div", { className: "gf-form" }, /* @__PURE__ */ import_react.default.createElement(import_ui.InlineField, { label, labelWidth: 26, tooltip }, children));
}
function Secret({ name, label, area, options, onOptionsChange }) {
  const isSet = !!(options.secureJsonFields && options.secureJsonFields[name]);
  const reset = () => onOptionsChange({
    ...options,
    secureJsonFields: { ...options.secureJsonFields, [name]: false },
    secureJsonData: { ...options.secureJsonData, [name]: "" }
  });
  const field = {
    id: "config-" + name,
    value: options.secureJsonData && options.secureJsonData[name] || "",
    onChange: (e) => onOptionsChange({ ...options, secureJsonData: { ...options.secureJsonData, [name]: e.target.value } })
  };
  if (isSet) {
    return /* @__PURE__ */ import_react.default.createElement("div", { className: "gf-form" }, /* @__PURE__ */ import_react.default.createElement(import_ui.InlineField, { label, labelWidth: 26 }, /* @__PURE__ */ import_react.default.createElement(import_ui.Input, { id: "config-" + name, width: 40, disabled: true, value: "is set" })), /* @__PURE__ */ import_react.default.createElement(import_ui.Button, { variant: "secondary", type: "button", id: "reset-" + name, onClick: reset }, "Reset"));
  }
  return /* @__PURE__ */ import_react.default.createElement(Row, { label }, area ? /* @__PURE__ */ import_react.default.createElement(import_ui.TextArea, { cols: 60, rows: 4, placeholder: "-----BEGIN", ...field }) : /* @__PURE__ */ import_react.default.createElement(import_ui.Input, { type: "password", width: 40, autoComplete: "new-password", ...field }));
}

// src/datasource.ts
var import_runtime = require("@grafana/runtime");

// src/types.ts
var choice = (value, label, description = "") => ({ value, label, description });
var types = [
  choice("verdict", "Verdict", "Does reuse help, hurt, or is it unknown: the last word on each link"),
  choice("benefit", "Benefit", "Mean seconds saved, predicted and measured, with intervals"),
  choice("stages", "Stages of TTFT", "Where the time to the first token went"),
  choice("links", "Links", "What crossed each link, and how full it is"),
  choice("coverage", "Coverage", "How much of the traffic the answers rest on"),
  choice("calibration", "Calibration", "The coefficients that were published, and how they hold"),
  choice("decisions", "Decisions", "Single decisions: the worst, or all"),
  choice("request", "One request", "Its stages, its candidates, its replays"),
  choice("annotation", "Events", "Publications, rollbacks, refusals and drift"),
  choice("sql", "SQL", "A SELECT of your own, with $__timeFilter(column) and $__interval")
];
var table = choice("table", "Table");
var series = choice("series", "Series");
var views = {
  verdict: [table],
  benefit: [table, series],
  stages: [table, series],
  links: [table, series],
  coverage: [table, series, choice("legs", "Replays by size")],
  calibration: [choice("document", "Document"), choice("terms", "Laws"), choice("history", "History"), choice("series", "Error"), choice("coordinators", "Coordinators")],
  decisions: [choice("worst", "Worst"), choice("all", "All")],
  request: [choice("stages", "Stages"), choice("facts", "Facts")],
  annotation: [choice("all", "All"), choice("publications", "Publications"), choice("rollbacks", "Rollbacks"), choice("refusals", "Refusals"), choice("drift", "Drift")],
  sql: [table, series]
};
var dimensions = [
  choice("", "Nothing"),
  choice("path", "Path"),
  choice("link", "Link"),
  choice("tier", "Tier"),
  choice("size", "Size"),
  choice("policy", "Policy"),
  choice("model", "Model")
];
var sources = [choice("predicted", "Predicted", "by the cost model, of all requests"), choice("measured", "Measured", "by replays")];
var columns = ["link", "path", "tier", "size", "policy", "model"];
var filtered = ["verdict", "benefit", "stages", "links", "coverage", "calibration", "decisions"];
function complete(q) {
  const queryType = q.queryType || "verdict";
  const known = views[queryType] || [];
  const view = known.some((v) => v.value === q.view) ? q.view : known.length > 0 ? known[0].value : q.view;
  return { ...q, queryType, view };
}

// src/datasource.ts
var kept = {};
for (const name of ["__interval", "__interval_ms", "__interval_s", "__from", "__to"]) {
  kept[name] = { text: "$" + name, value: "$" + name };
}
var quoted = (value) => "'" + String(value).replace(/\\/g, "\\\\").replace(/'/g, "\\'") + "'";
function valuesOf(text, scopedVars) {
  const values = [];
  const rest = (0, import_runtime.getTemplateSrv)().replace(text, scopedVars, (value) => {
    values.push(...(Array.isArray(value) ? value : [value]).map(String));
    return "";
  });
  if (values.length > 0 && rest.trim() === "") {
    return values;
  }
  return [(0, import_runtime.getTemplateSrv)().replace(text, scopedVars)];
}
var DataSource = class extends import_runtime.DataSourceWithBackend {
  constructor(settings) {
    super(settings);
    // Annotations are queries like any other, and their frames have the usual columns.
    this.annotations = {};
  }
  filterQuery(query) {
    const q = complete(query);
    return !q.hide && !(q.queryType === "sql" && !q.sql) && !(q.queryType === "request" && !q.request);
  }
  applyTemplateVariables(query, scopedVars) {
    const q = complete(query);
    const filter = {};
    for (const column of columns) {
      const list = q.filter && q.filter[column] || [];
      const values = [].concat(list).reduce((all, text) => all.concat(valuesOf(text, scopedVars)), []);
      if (values.length > 0) {
        filter[column] = values;
      }
    }
    const replace = (text) => text ? (0, import_runtime.getTemplateSrv)().replace(text, scopedVars) : text;
    return {
      ...q,
      filter,
      by: replace(q.by),
      request: replace(q.request),
      sql: q.sql ? (0, import_runtime.getTemplateSrv)().replace(q.sql, { ...scopedVars, ...kept }, (v) => Array.isArray(v) ? v.map(quoted).join(", ") : String(v)) : q.sql
    };
  }
  /** The values of a dashboard variable: { of: 'link' }, or the text link. */
  metricFindQuery(asked, options) {
    const query = typeof asked === "string" ? { of: asked.trim() } : asked || {};
    const now = Date.now();
    const range = options && options.range || { from: moment(now - 24 * 3600 * 1e3), to: moment(now), raw: { from: "now-24h", to: "now" } };
    const request = {
      requestId: "kvwhatif-variable-" + query.of,
      app: "dashboard",
      targets: [{ ...query, refId: "variable", queryType: query.queryType || "variable" }],
      range,
      rangeRaw: range.raw,
      interval: "1m",
      intervalMs: 6e4,
      maxDataPoints: 1e3,
      scopedVars: options && options.scopedVars || {},
      timezone: "utc",
      startTime: now
    };
    return new Promise((resolve, reject) => {
      this.query(request).subscribe({
        next: (response) => response.error ? reject(response.error) : resolve(findValues(response.data || [])),
        error: reject,
        complete: () => resolve([])
      });
    });
  }
};
function moment(at2) {
  return { valueOf: () => at2, toISOString: () => new Date(at2).toISOString() };
}
function findValues(frames) {
  const out = [];
  for (const frame of frames) {
    const fields = frame.fields || [];
    const text = fields.find((f) => f.name === "text") || fields[0];
    const value = fields.find((f) => f.name === "value") || text;
    for (let i = 0; text && i < frame.length; i++) {
      out.push({ text: String(at(text.values, i)), value: String(at(value.values, i)) });
    }
  }
  return out;
}
function at(values, i) {
  return typeof values.get === "function" ? values.get(i) : values[i];
}

// src/QueryEditor.tsx
var import_react2 = __toESM(require("react"));
var import_runtime2 = require("@grafana/runtime");
var import_ui2 = require("@grafana/ui");
function QueryEditor({ datasource, query, onChange, onRunQuery }) {
  const q = complete(query);
  const set = (change, run = true) => {
    onChange(complete({ ...q, ...change }));
    if (run) {
      onRunQuery();
    }
  };
  const type = q.queryType;
  return /* @__PURE__ */ import_react2.default.createElement("div", null, /* @__PURE__ */ import_react2.default.createElement(import_ui2.InlineFieldRow, null, /* @__PURE__ */ import_react2.default.createElement(import_ui2.InlineField, { label: "Ask for", labelWidth: 14 }, /* @__PURE__ */ import_react2.default.createElement(import_ui2.Select, { inputId: "query-type", "aria-label": "Ask for", width: 28, options: types, value: type, onChange: (v) => set({ queryType: v.value, view: void 0 }) })), views[type] && views[type].length > 1 && /* @__PURE__ */ import_react2.default.createElement(import_ui2.InlineField, { label: "Show", labelWidth: 10 }, /* @__PURE__ */ import_react2.default.createElement(import_ui2.RadioButtonGroup, { options: views[type].map(({ value, label }) => ({ value, label })), value: q.view, onChange: (view) => set({ view }) }))), /* @__PURE__ */ import_react2.default.createElement(Own, { q, set, run: onRunQuery }), filtered.indexOf(type) >= 0 && /* @__PURE__ */ import_react2.default.createElement(Filters, { datasource, filter: q.filter || {}, onChange: (filter) => set({ filter }) }));
}
function Own({ q, set, run }) {
  switch (q.queryType) {
    case "benefit":
    case "stages":
      return /* @__PURE__ */ import_react2.default.createElement(import_ui2.InlineFieldRow, null, /* @__PURE__ */ import_react2.default.createElement(import_ui2.InlineField, { label: "By", labelWidth: 14 }, /* @__PURE__ */ import_react2.default.createElement(import_ui2.Select, { inputId: "query-by", "aria-label": "By", width: 28, options: dimensions, value: q.by || "", onChange: (v) => set({ by: v.value || void 0 }) })), q.queryType === "benefit" && q.view === "series" && /* @__PURE__ */ import_react2.default.createElement(import_ui2.InlineField, { label: "From", labelWidth: 10 }, /* @__PURE__ */ import_react2.default.createElement(import_ui2.RadioButtonGroup, { options: sources, value: q.source || "predicted", onChange: (source) => set({ source }) })));
    case "decisions":
      return /* @__PURE__ */ import_react2.default.createElement(import_ui2.InlineField, { label: "At most", labelWidth: 14 }, /* @__PURE__ */ import_react2.default.createElement(import_ui2.Input, { id: "query-limit", "aria-label": "At most", type: "number", min: 1, max: 1e4, width: 28, placeholder: "100", value: q.limit || "", onChange: (e) => set({ limit: number(e.target.value) }, false), onBlur: run }));
    case "request":
      return /* @__PURE__ */ import_react2.default.createElement(import_ui2.InlineField, { label: "Request", labelWidth: 14, tooltip: "A request id, or the 32 hex digits of a row id or trace id; variables such as $request work too" }, /* @__PURE__ */ import_react2.default.createElement(import_ui2.Input, { id: "query-request", "aria-label": "Request", width: 56, placeholder: "$request", value: q.request || "", onChange: (e) => set({ request: e.target.value }, false), onBlur: run }));
    case "sql":
      return /* @__PURE__ */ import_react2.default.createElement(import_ui2.InlineField, { label: "SQL", labelWidth: 14, grow: true, tooltip: "$__timeFilter(column), $__interval, $__interval_s, $__from, $__to, $__fromTime and $__toTime are put in. Reading only; rows and time are limited." }, /* @__PURE__ */ import_react2.default.createElement(
        import_ui2.TextArea,
        {
          id: "query-sql",
          "aria-label": "SQL",
          rows: 8,
          placeholder: "SELECT minute AS time, sum(n) AS requests FROM slices FINAL WHERE $__timeFilter(minute) GROUP BY time ORDER BY time",
          value: q.sql || "",
          onChange: (e) => set({ sql: e.target.value }, false),
          onBlur: run
        }
      ));
  }
  return null;
}
var number = (text) => text === "" || isNaN(Number(text)) ? void 0 : Number(text);
function Filters({ datasource, filter, onChange }) {
  return /* @__PURE__ */ import_react2.default.createElement(import_ui2.InlineFieldRow, null, columns.map((column) => /* @__PURE__ */ import_react2.default.createElement(import_ui2.InlineField, { key: column, label: column, labelWidth: 14 }, /* @__PURE__ */ import_react2.default.createElement(Values, { datasource, column, values: [].concat(filter[column] || []), onChange: (values) => onChange({ ...filter, [column]: values.length > 0 ? values : void 0 }) }))));
}
function Values({ datasource, column, values, onChange }) {
  const [seen, setSeen] = (0, import_react2.useState)([]);
  const load = () => {
    datasource.metricFindQuery({ of: column }).then(
      (found) => setSeen(found.map((v) => ({ value: String(v.value), label: v.text }))),
      () => setSeen([])
      // what is typed counts all the same
    );
  };
  (0, import_react2.useEffect)(() => setSeen([]), [datasource.uid]);
  const options = (0, import_runtime2.getTemplateSrv)().getVariables().map((v) => ({ value: "$" + v.name, label: "$" + v.name })).concat(seen);
  return /* @__PURE__ */ import_react2.default.createElement(
    import_ui2.MultiSelect,
    {
      inputId: "filter-" + column,
      "aria-label": column,
      width: 28,
      allowCustomValue: true,
      placeholder: "all",
      options,
      value: values.map((v) => options.find((o) => o.value === v) || { value: v, label: v }),
      onOpenMenu: load,
      onChange: (chosen) => onChange((chosen || []).map((c) => c.value)),
      onCreateOption: (v) => onChange(values.concat(v))
    }
  );
}

// src/VariableEditor.tsx
var import_react3 = __toESM(require("react"));
var import_ui3 = require("@grafana/ui");
function VariableEditor({ query, onChange }) {
  const of = typeof query === "string" ? query : query && query.of || "";
  return /* @__PURE__ */ import_react3.default.createElement(import_ui3.InlineField, { label: "Values of", labelWidth: 16, tooltip: "All that were seen in the dashboard's time range" }, /* @__PURE__ */ import_react3.default.createElement(
    import_ui3.Select,
    {
      inputId: "variable-of",
      "aria-label": "Values of",
      width: 24,
      options: columns.map((c) => ({ value: c, label: c })),
      value: of || null,
      placeholder: "choose",
      onChange: (v) => onChange({ refId: "variable", queryType: "variable", of: v.value }, "values of " + v.value)
    }
  ));
}

// src/module.ts
var plugin = new import_data.DataSourcePlugin(DataSource).setConfigEditor(ConfigEditor).setQueryEditor(QueryEditor).setVariableQueryEditor(VariableEditor);
return module.exports;
});

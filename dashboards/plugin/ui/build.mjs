// Builds module.js: one AMD module, which the loaders of all Grafanas from 7.5 on
// take. --check says whether the one that is kept is what would be built.
import { readFileSync, writeFileSync } from 'node:fs';
import { build } from 'esbuild';

// What Grafana gives to plugins in all versions; anything else must be in the bundle.
const shared = ['react', '@grafana/data', '@grafana/runtime', '@grafana/ui'];

const { outputFiles } = await build({
  entryPoints: ['src/module.ts'],
  bundle: true,
  write: false,
  format: 'cjs',
  target: 'es2018',
  jsx: 'transform', // classic: 7.5 has no react/jsx-runtime
  external: shared,
  minify: false,
  charset: 'ascii',
  legalComments: 'none',
});
const body = outputFiles[0].text.replace(/^"use strict";\n/, '');
const out = `/* kvwhatif data source for Grafana 7.5 and later. Apache-2.0. Built by build.mjs of src; do not edit. */
define([${shared.map((s) => JSON.stringify(s)).join(', ')}], function () {
"use strict";
const given = arguments;
const names = ${JSON.stringify(shared)};
const require = (name) => given[names.indexOf(name)];
const module = { exports: {} };
${body}return module.exports;
});
`;
const path = '../module.js';
if (process.argv.includes('--check')) {
  if (readFileSync(path, 'utf8') !== out) {
    console.error('dashboards/plugin/module.js is not what its sources make: run make plugin');
    process.exit(1);
  }
} else {
  writeFileSync(path, out);
}

// Builds the page of the loader test into the directory that is named: for each
// generation of Grafana its loader and the stand-in, with the React of that time.
import { cpSync, mkdirSync } from 'node:fs';
import { build } from 'esbuild';

const out = process.argv[2];
mkdirSync(out, { recursive: true });
for (const [generation, n, loader] of [['7.5.17', '7.5', ['dist/system.js']], ['13.2.3', '13', ['dist/system.js', 'dist/extras/amd.js']]]) {
  await build({
    entryPoints: ['test/harness.tsx'],
    bundle: true,
    outfile: `${out}/harness-${generation}.js`,
    format: 'iife',
    jsx: 'transform',
    define: { GENERATION: JSON.stringify(generation), 'process.env.NODE_ENV': '"development"' },
    alias: { mount: `./test/${generation}/mount.ts`, react: `react-${n}`, 'react-dom': `react-dom-${n}` },
    logLevel: 'error',
  });
  loader.forEach((file, i) => cpSync(`node_modules/systemjs-${n}/${file}`, `${out}/loader-${generation}-${i}.js`));
}

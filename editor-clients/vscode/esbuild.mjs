// Bundles the extension and its page into `dist/`.
import { copyFile, mkdir, rm } from 'node:fs/promises';
import { build } from 'esbuild';

const shared = { bundle: true, minify: true, sourcemap: false, legalComments: 'none', logLevel: 'warning' };
const codicons = 'node_modules/@vscode/codicons/dist';

await rm('dist', { recursive: true, force: true });
await mkdir('dist/webview', { recursive: true });
await Promise.all([
  build({
    ...shared,
    entryPoints: ['src/extension.ts'],
    outfile: 'dist/extension.cjs',
    platform: 'node',
    target: 'node20',
    format: 'cjs',
    external: ['vscode'],
  }),
  build({
    ...shared,
    entryPoints: ['src/webview/main.ts'],
    outfile: 'dist/webview/main.js',
    platform: 'browser',
    target: 'es2022',
    format: 'iife',
  }),
  copyFile(`${codicons}/codicon.css`, 'dist/webview/codicon.css'),
  copyFile(`${codicons}/codicon.ttf`, 'dist/webview/codicon.ttf'),
]);
